package script

// Op is what the script is asked to do with checks.
type Op byte

// The operations, as [store.Store] has them. Their numbers are the script's.
const (
	Take Op = 1 + iota
	Peek
	Charge
	Refund
	Reset
	Renew
	Restore // of [counting.Restorer]
)
