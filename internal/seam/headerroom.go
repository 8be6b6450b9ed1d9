package seam

// HeaderRoom is memory for the fields of draft-11 in one response: the values in a [HeaderMap] and
// most texts of RateLimit. With 64 bytes it is as cheap to allocate as it can be.
type HeaderRoom struct {
	Policy, Limit [1]string // with no spare capacity, so that what appends to one copies it
	Text          [32]byte
}
