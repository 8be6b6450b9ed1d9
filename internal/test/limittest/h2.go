package limittest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// h2conn is a client's end of an HTTP/2 connection that can open streams and reset
// them (RFC 9113). It sends headers as literals without indexing, which need no state
// (RFC 7541, section 6.2.2).
type h2conn struct{ net.Conn }

// Types of frames.
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePing     = 6
)

// begin sends the preface with the default settings.
func (h h2conn) begin() {
	_, _ = io.WriteString(h, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	h.frame(frameSettings, 0, 0, nil)
}

// get opens a stream with a request for "/".
func (h h2conn) get(stream uint32, host string) {
	var block []byte
	for _, field := range [...][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", host}} {
		block = append(block, 0)
		for _, text := range field {
			block = append(append(block, byte(len(text))), text...) // up to 126 bytes
		}
	}
	const endOfStream, endOfHeaders = 1, 4
	h.frame(frameHeaders, endOfStream|endOfHeaders, stream, block)
}

// cancel resets a stream.
func (h h2conn) cancel(stream uint32) {
	const cancel = 8
	h.frame(frameReset, 0, stream, []byte{0, 0, 0, cancel})
}

// ping waits until the server has read everything sent so far.
func (h h2conn) ping() error {
	h.frame(framePing, 0, 0, make([]byte, 8))
	for {
		var head [9]byte
		if _, err := io.ReadFull(h, head[:]); err != nil {
			return err
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, h, length); err != nil {
			return err
		}
		switch head[3] {
		case framePing:
			return nil
		case 7:
			return errors.New("the server goes away")
		}
	}
}

func (h h2conn) frame(kind, flags byte, stream uint32, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	frame = binary.BigEndian.AppendUint32(append(frame, flags), stream)
	_, _ = h.Write(append(frame, payload...))
}
