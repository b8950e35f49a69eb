load helper
load hostile
load faults
load damage
@test "flips" {
	hurt_base
	flips 4
	settled
}
@test "hurts" {
	hurt_base
	hurts 0
	settled
}
