package core

import (
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// What the headers and the bodies of responses are written with.

const (
	statusBadRequest         = 400
	statusUnauthorized       = 401
	statusTooManyRequests    = 429
	statusServiceUnavailable = 503
)

const (
	headerRetryAfter   = "Retry-After"      // RFC 9110, section 10.2.3
	headerAuthenticate = "Www-Authenticate" // RFC 9110, section 11.6.1
)

// maxField bounds each field of draft-11, and the names in the body of a denial. A proxy reads the header of a
// response into a buffer, of 4 KiB in nginx, and takes a response with a larger one for a failure of the server.
const maxField = 768

// maxFieldInteger is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxFieldInteger = 999_999_999_999_999

// Header is a response header as [Decision.SetHeaders] needs it. http.Header is one.
//
// One may also have the methods Values and Add, or Del, of http.Header. With these SetHeaders reads all lines of
// a field that another limiter has written, and removes those that no longer hold; without them it reads the
// first line and removes nothing. So what wraps an http.Header embeds an http.Header, and not a Header.
type Header interface {
	Get(name string) string
	Set(name, value string)
}

// lines is a [Header] that gives access to all lines of a field. Add is called only for a
// field without lines, where it can be cheaper than Set.
type lines interface {
	Values(name string) []string
	Add(name, value string)
}

// listOf returns the value of a field that is a list, which may have several lines.
func listOf(h Header, name string) string {
	if lines, ok := h.(lines); ok {
		return strings.Join(lines.Values(name), ", ")
	}
	return h.Get(name)
}

// addList adds members to a field that is a list, after what it has already.
func addList(h Header, name, before, members string) {
	switch {
	case members == "":
	case before == "":
		setList(h, name, members)
	default:
		h.Set(name, before+", "+members)
	}
}

// setList sets a field that is a list, unless it has no members.
func setList(h Header, name, members string) {
	if members == "" {
		return
	}
	if lines, ok := h.(lines); ok && len(lines.Values(name)) == 0 {
		lines.Add(name, members)
		return
	}
	h.Set(name, members)
}

// separate appends ", " unless dst is empty.
func separate(dst []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ", "...)
	}
	return dst
}

// appendQuoted appends a limit's name in quotes, as a string of a structured field and
// of JSON alike: names hold no character that either would escape.
func appendQuoted(dst []byte, name string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"')
}

// seconds returns d in seconds, rounded up and clamped to what a structured field holds.
func seconds(d time.Duration) int64 {
	return min(integer.CeilDiv(int64(max(d, 0)), int64(time.Second)), maxFieldInteger)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
