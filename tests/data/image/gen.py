#!/usr/bin/env python3
"""Makes the files of this folder: gen.py, with numpy and Pillow < 13.  For every input NAME there is NAME.white.ppm (EXIF ignored,
transparency on white) and NAME.drop.ppm (EXIF applied, alpha dropped), as Pillow and Hugging Face's convert_to_rgb give them; one file
where both are equal: NAME.ppm.  What Pillow cannot write (interlaced and 16-bit PNG, eXIf after the pixels) is written here."""
import io, os, struct, zlib
import numpy as np
from PIL import Image, ImageOps

rng = np.random.default_rng(7)


def photo(w, h):
    y, x = np.mgrid[0:h, 0:w].astype(float)
    a = np.stack([128 + 90 * np.sin(x * (.1 + .05 * c) + y * .07 * (c + 1)) + rng.normal(0, 9, (h, w)) for c in range(3)], -1)
    return np.clip(a, 0, 255).astype(np.uint8)


def chunk(t, d):
    return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))


def png(arr, depth, color, interlace=0, before=b"", after=b""):
    """arr [h][w] or [h][w][c] of samples; depth below 8 is packed."""
    h, w = arr.shape[:2]

    def rows(a):
        out = b""
        for r in a:
            r = r.reshape(-1)
            if depth == 16:
                out += b"\0" + r.astype(">u2").tobytes()
            elif depth == 8:
                out += b"\0" + r.astype(np.uint8).tobytes()
            else:
                bits = "".join(format(int(v), "0%db" % depth) for v in r)
                bits += "0" * (-len(bits) % 8)
                out += b"\0" + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
        return out
    raw = b""
    if interlace:
        for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
            part = arr[y0::dy, x0::dx]
            if part.size:
                raw += rows(part)
    else:
        raw = rows(arr)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, interlace)) + before
            + chunk(b"IDAT", zlib.compress(raw, 9)) + after + chunk(b"IEND", b""))


def tiff(orientation, big=False):
    o = ">" if big else "<"
    return (b"MM\0*" if big else b"II*\0") + struct.pack(o + "IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


def ppm(path, a):
    with open(path, "wb") as f:
        f.write(b"P6\n%d %d\n255\n" % (a.shape[1], a.shape[0]) + np.ascontiguousarray(a).tobytes())


def keep(name, data):
    open(name, "wb").write(data)
    im = Image.open(name)
    if "A" in im.getbands() or im.info.get("transparency") is not None:
        im = Image.alpha_composite(Image.new("RGBA", im.size, (255,) * 4), im.convert("RGBA"))
    white = np.array(im.convert("RGB"))
    drop = np.array(ImageOps.exif_transpose(Image.open(name)).convert("RGB"))
    if white.shape == drop.shape and (white == drop).all():
        ppm(name + ".ppm", white)
    else:
        ppm(name + ".white.ppm", white)
        ppm(name + ".drop.ppm", drop)


def saved(im, fmt, **kw):
    b = io.BytesIO()
    im.save(b, fmt, **kw)
    return b.getvalue()


a = photo(33, 21)
im = Image.fromarray(a)
alpha = rng.integers(0, 256, (21, 33), dtype=np.uint8)
alpha[:4] = 0
alpha[4:8] = 255
rgba = np.dstack([a, alpha])

keep("interlaced_rgb.png", png(a, 8, 2, 1))
keep("interlaced_rgba.png", png(rgba, 8, 6, 1))
keep("rgba16.png", png((rgba.astype(np.uint16) << 8) | rng.integers(0, 256, rgba.shape), 16, 6))
keep("la16.png", png((rgba[..., ::3].astype(np.uint16) << 8) | rng.integers(0, 256, rgba[..., ::3].shape), 16, 4))
for d in (1, 2, 4):
    keep("gray%d.png" % d, png(a[..., 0] >> (8 - d), d, 0))
    pal = rng.integers(0, 256, (1 << d, 3), dtype=np.uint8)
    keep("palette%d.png" % d, png(a[..., 0] >> (8 - d), d, 3, before=chunk(b"PLTE", pal.tobytes())))
keep("gray_trns.png", png(a[..., 0], 8, 0, before=chunk(b"tRNS", struct.pack(">H", int(a[5, 5, 0])))))
keep("palette_short_trns.png", png(a[..., 0] >> 6, 2, 3, before=chunk(b"PLTE", pal[:4].tobytes()) + chunk(b"tRNS", b"\x40")))
keep("gamma.png", png(a, 8, 2, before=chunk(b"gAMA", struct.pack(">I", 100000))))
keep("exif8.png", png(a, 8, 2, before=chunk(b"eXIf", tiff(8, True))))
keep("exif3_late.png", png(a, 8, 2, after=chunk(b"eXIf", tiff(3))))
g16 = (a[..., 0].astype(np.uint16) << 8) | rng.integers(0, 256, (21, 33)).astype(np.uint16)
open("gray16.png", "wb").write(png(g16, 16, 0))           # the reference has no rule: value >> 8
ppm("gray16.png.ppm", np.repeat((g16 >> 8).astype(np.uint8)[..., None], 3, 2))

keep("progressive.jpg", saved(im, "JPEG", quality=80, progressive=True))
keep("s420.jpg", saved(im, "JPEG", quality=75, subsampling=2))
keep("s422.jpg", saved(im, "JPEG", quality=75, subsampling=1))
keep("s444_restart.jpg", saved(im, "JPEG", quality=75, subsampling=0, restart_marker_rows=1))
keep("gray.jpg", saved(im.convert("L"), "JPEG"))
cmyk = Image.merge("CMYK", [Image.fromarray(np.ascontiguousarray(c)) for c in (255 - a[..., 0], 255 - a[..., 1], 255 - a[..., 2], alpha // 3)])
keep("cmyk.jpg", saved(cmyk, "JPEG", quality=90))
ycck = saved(cmyk, "JPEG", quality=90)
at = ycck.index(b"Adobe") + 11                            # the transform: 0 is CMYK, 2 is YCCK
keep("ycck.jpg", ycck[:at] + b"\2" + ycck[at + 1:])
for o in range(1, 9):
    e = Image.Exif()
    e[0x112] = o
    keep("exif%d.jpg" % o, saved(im.crop((0, 0, 12, 9)), "JPEG", quality=90, exif=e))

keep("lossy.webp", saved(im, "WEBP", quality=70))
keep("lossless.webp", saved(im, "WEBP", lossless=True))
keep("lossy_alpha.webp", saved(Image.fromarray(rgba), "WEBP", quality=70))
keep("lossless_alpha.webp", saved(Image.fromarray(rgba), "WEBP", lossless=True, exact=True))
e = Image.Exif()
e[0x112] = 6
keep("exif6.webp", saved(im.crop((0, 0, 12, 9)), "WEBP", quality=70, exif=e))
turned = open("exif6.webp", "rb").read()
at = turned.index(b"EXIF")
turned = turned[:at] + b"XTRA\3\0\0\0abc\0" + turned[at:]      # an odd chunk, padded, on the way
keep("exif6_after_odd.webp", turned[:4] + struct.pack("<I", len(turned) - 8) + turned[8:])
open("animated.webp", "wb").write(saved(im, "WEBP", save_all=True, append_images=[Image.fromarray(255 - a)], duration=100))

keep("p6.pnm", b"P6 #one\n# two\n33\t21 # three\n255\n" + a.tobytes())
keep("p5.pnm", b"P5\n33 21\n255\n" + np.ascontiguousarray(a[..., 0]).tobytes())
keep("p6_max100.pnm", b"P6\n33 21\n100\n" + (a % 108).astype(np.uint8).tobytes())
wide = rng.integers(0, 65536, (21, 33, 3)).astype(np.uint16)
keep("p6_max65535.pnm", b"P6\n33 21\n65535\n" + wide.astype(">u2").tobytes())
keep("p6_max1000.pnm", b"P6\n33 21\n1000\n" + (wide % 1010).astype(">u2").tobytes())
open("p5_max65535.pnm", "wb").write(b"P5\n33 21\n65535\n" + wide[..., 0].astype(">u2").tobytes())   # as P6, which the reference is not
g = np.rint(wide[..., 0] / 65535 * 255).astype(np.uint8)
ppm("p5_max65535.pnm.ppm", np.repeat(g[..., None], 3, 2))
