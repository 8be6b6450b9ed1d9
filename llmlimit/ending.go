package llmlimit

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
)

const endedMessage = "The answer was ended: it has reached the number of tokens that was reserved for it."

// ending returns what a stream says when it is ended at its limit, in the provider's own form, behind an event.
// responses is set for OpenAI's responses.
func (r *Reader) ending(responses bool) []byte {
	f := failure{status: http.StatusTooManyRequests, measure: OutputTokens, message: endedMessage}
	switch r.form {
	case framed:
		return exception(f.appendJSON(nil, Bedrock))
	case whole: // an array, in which an event is over
		return append(f.appendJSON([]byte(",\n"), r.api), ']')
	}
	// The line in front of it ends the last one, if only a part of its end was passed on.
	text := []byte("\n")
	switch {
	case r.api == Anthropic:
		text = append(text, "event: error\n"...)
	case responses:
		message, _ := json.Marshal(f.message) //nolint:errchkjson // a string can be written
		text = append(text, "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":"...)
		return append(append(text, message...), ",\"param\":null}\n\n"...)
	}
	return append(f.appendJSON(append(text, "data: "...), r.api), "\n\n"...)
}

// exception returns a message of Amazon's event stream that says that the stream was throttled.
func exception(payload []byte) []byte {
	return appendFrame(nil, [][2]string{
		{":exception-type", "throttlingException"}, {":content-type", "application/json"}, {":message-type", "exception"},
	}, payload)
}

// stringValue is the type of a header's value in Amazon's event streams.
const stringValue = 7

// appendFrame appends a message with headers that are short text.
func appendFrame(dst []byte, headers [][2]string, payload []byte) []byte {
	var head []byte
	for _, h := range headers {
		head = append(append(head, byte(len(h[0]))), h[0]...)
		head = append(head, stringValue)
		head = append(binary.BigEndian.AppendUint16(head, uint16(len(h[1]))), h[1]...)
	}
	start := len(dst)
	total := preludeSize + len(head) + len(payload) + crcSize
	dst = binary.BigEndian.AppendUint32(dst, uint32(total))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	dst = append(append(dst, head...), payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}
