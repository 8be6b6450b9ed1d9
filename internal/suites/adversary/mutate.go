package adversary

import "slices"

// telling are bytes that matter to parsers.
var telling = []string{"\r", "\n", "\r\n", " ", "\t", ":", ";", ",", "\"", "\x00", "\x7f", "\x80", "\xa0", "\u00a0", "=", "0", "-", "_", "%", "+", "\\", "\r\n ", "\n\n", "\r\n\r\n"}

// mutate makes some changes to bytes.
func (s *source) mutate(raw []byte) []byte {
	for range 1 + s.IntN(4) {
		if len(raw) == 0 {
			return raw
		}
		i := s.IntN(len(raw))
		j := min(i+1+s.IntN(1+s.IntN(24)), len(raw))
		switch s.IntN(7) {
		case 0:
			raw = slices.Insert(slices.Clone(raw), i, []byte(pick(s, telling...))...)
		case 1:
			raw = slices.Delete(slices.Clone(raw), i, j)
		case 2: // repeat a part
			raw = slices.Insert(slices.Clone(raw), j, raw[i:j]...)
		case 3: // copy a part to another place
			at := s.IntN(len(raw))
			raw = slices.Insert(slices.Clone(raw), at, raw[i:j]...)
		case 4:
			raw = slices.Clone(raw)
			raw[i] ^= 1 << s.IntN(8)
		case 5:
			raw = slices.Clone(raw)
			raw[i] = byte(s.IntN(256))
		case 6:
			raw = slices.Replace(slices.Clone(raw), i, i+1, []byte(pick(s, telling...))...)
		}
	}
	return raw
}
