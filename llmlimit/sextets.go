package llmlimit

import "github.com/weblimit/weblimit/llmlimit/internal/scan"

// sextets decodes base64 that is cut anywhere, and passes it on. What is none of its characters is passed over.
type sextets struct {
	bits  uint32
	count uint8 // of bits
}

// read decodes some characters.
func (b *sextets) read(p []byte, json *scan.Scanner) {
	var room [256]byte
	out := room[:0]
	for _, c := range p {
		v := sextetValues[c]
		if v == noValue {
			continue
		}
		b.bits = b.bits<<6 | uint32(v)
		if b.count += 6; b.count >= 8 {
			b.count -= 8
			out = append(out, byte(b.bits>>b.count))
		}
		if len(out) == len(room) {
			feed(json, out)
			out = out[:0]
		}
	}
	feed(json, out)
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
