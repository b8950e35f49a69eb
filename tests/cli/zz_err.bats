load helper
load faults
@test "batch" { kills batch KILL 80 1; }
@test "mend" { kills mend KILL 65 1; }
@test "decodekill" { kills decode KILL 50 1; }
for c in encode prefill turn decode batch mend evict checkpoint release forget gc; do :; done
@test "encode" { fails encode ENOSPC once 1 3; fails encode EIO ever 2 3; }
@test "prefill" { fails prefill ENOSPC once 1 5; fails prefill EIO ever 2 5; }
@test "turn" { fails turn ENOSPC once 1 2; fails turn EIO ever 2 3; }
@test "decode" { fails decode EIO once 1 2; fails decode ENOSPC ever 2 3; }
@test "batch e" { fails batch ENOSPC once 1 3; fails batch EIO ever 2 3; }
@test "mend e" { fails mend ENOSPC once 1 3; fails mend EIO ever 2 3; }
@test "evict" { fails evict ENOSPC once 1 5; fails evict EIO ever 2 5; }
@test "checkpoint" { fails checkpoint ENOSPC once 1 3; fails checkpoint EIO ever 2 3; }
@test "release" { fails release ENOSPC once 1 2; fails release EIO ever 2 2; }
@test "forget" { fails forget ENOSPC once 1 2; fails forget EIO ever 2 2; }
@test "gc" { fails gc ENOSPC once 1 20; fails gc EIO ever 2 20; }
