package llmlimit

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/weblimit/weblimit/llmlimit/internal/scan"
)

// frames reads Amazon's event stream encoding: each message is its length, that of its headers, a CRC of both, headers,
// payload, and a CRC of it all. What a payload tells counts when that CRC is right. After one that is wrong, nothing
// more is read.
type frames struct {
	json    scan.Scanner // of the payload
	staged  tally        // of the message that is read
	base64  sextets
	inner   scan.Scanner // of the event in the payload, in base64
	decoded [128]byte    // of it, for the moment

	head  [preludeSize]byte // the prelude, or the CRC at the end
	used  int               // bytes of it
	part  framePart
	left  uint32 // bytes of the part
	body  uint32 // bytes of the payload
	check uint32 // CRC so far
}

type framePart uint8

const (
	framePrelude framePart = iota
	frameHeaders
	framePayload
	frameCRC
	frameBroken
)

const (
	preludeSize = 12
	crcSize     = 4
	// maxFrame is the most that a message may have, and maxHeaders its headers, as AWS says.
	maxFrame   = 16<<20 + maxHeaders + preludeSize + crcSize
	maxHeaders = 128 << 10
)

// begin begins a message.
func (f *frames) begin() {
	f.part, f.used, f.check = framePrelude, 0, 0
	f.staged, f.base64 = tally{}, sextets{}
	f.json.Reset(converseTree, (*frameSink)(f))
	f.inner.Reset(invokeTree, &f.staged)
}

// read reads bytes up to the end of the next message, and reports whether there is one.
func (f *frames) read(p []byte, into *tally) (n int, event bool) {
	for n < len(p) {
		switch f.part {
		case framePrelude:
			if n += f.fill(p[n:], preludeSize); f.used == preludeSize {
				f.prelude()
			}
		case frameHeaders:
			n += f.pass(p[n:], framePayload, f.body)
		case framePayload:
			part := p[n:min(len(p), n+int(f.left))]
			feed(&f.json, part)
			n += f.pass(part, frameCRC, 0)
			if f.part == frameCRC {
				f.used = 0
			}
		case frameCRC:
			if n += f.fill(p[n:], crcSize); f.used < crcSize {
				continue
			}
			if binary.BigEndian.Uint32(f.head[:crcSize]) != f.check {
				f.part = frameBroken
				continue
			}
			into.add(&f.staged)
			f.begin()
			return n, true
		case frameBroken:
			return len(p), false
		}
	}
	return n, false
}

// fill copies bytes to head until it has size.
func (f *frames) fill(p []byte, size int) int {
	n := copy(f.head[f.used:size], p)
	f.used += n
	return n
}

// prelude reads the lengths.
func (f *frames) prelude() {
	total, headers := binary.BigEndian.Uint32(f.head[:]), binary.BigEndian.Uint32(f.head[4:])
	crc := crc32.ChecksumIEEE(f.head[:8])
	if crc != binary.BigEndian.Uint32(f.head[8:]) || total > maxFrame || headers > maxHeaders || total < headers+preludeSize+crcSize {
		f.part = frameBroken
		return
	}
	f.check = crc32.ChecksumIEEE(f.head[:])
	f.part, f.left, f.body = frameHeaders, headers, total-headers-preludeSize-crcSize
	f.skipEmpty()
}

// pass reads bytes of a part, and goes on to the next one at its end.
func (f *frames) pass(p []byte, next framePart, left uint32) int {
	n := min(len(p), int(f.left))
	f.check = crc32.Update(f.check, crc32.IEEETable, p[:n])
	if f.left -= uint32(n); f.left == 0 {
		f.part, f.left, f.used = next, left, 0
		f.skipEmpty()
	}
	return n
}

// skipEmpty goes past headers or a payload of no bytes.
func (f *frames) skipEmpty() {
	if f.part == frameHeaders && f.left == 0 {
		f.part, f.left = framePayload, f.body
	}
	if f.part == framePayload && f.left == 0 {
		f.part, f.used = frameCRC, 0
	}
}

// frameSink is told what a payload has.
type frameSink frames

func (f *frameSink) Number(id uint8, n int64, whole bool) { f.staged.Number(id, n, whole) }
func (f *frameSink) Length(id uint8, n int64)             { f.staged.Length(id, n) }
func (f *frameSink) Short(uint8, []byte, bool)            {}
func (f *frameSink) Other(uint8, byte)                    {}
func (f *frameSink) Variant()                             {}

// Raw reads an event in base64.
func (f *frameSink) Raw(_ uint8, part []byte, _ bool) {
	for len(part) > 0 {
		n := min(len(part), len(f.decoded))
		feed(&f.inner, f.base64.decode(f.decoded[:0], part[:n]))
		part = part[n:]
	}
}
