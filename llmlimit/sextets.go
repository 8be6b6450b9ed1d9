package llmlimit

// sextets decodes base64 that is cut anywhere, and passes it on. What is none of its characters is passed over.
type sextets struct {
	bits  uint32
	count uint8 // of bits
}

// decode appends what some characters are to dst: at most as many bytes.
func (b *sextets) decode(dst, p []byte) []byte {
	for _, c := range p {
		v := sextetValues[c]
		if v == noValue {
			continue
		}
		b.bits = b.bits<<6 | uint32(v)
		if b.count += 6; b.count >= 8 {
			b.count -= 8
			dst = append(dst, byte(b.bits>>b.count))
		}
	}
	return dst
}

const noValue = 0xff

var sextetValues = func() (values [256]byte) {
	for i := range values {
		values[i] = noValue
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		values[c] = byte(i)
	}
	return values
}()
