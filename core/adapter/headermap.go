package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

// HeaderMap is a map of response headers to write a decision to. It has the methods of an
// http.Header, for names in canonical form only, and a decision is written to the map itself,
// without copies:
//
//	c.Decision.SetHeaders(adapter.HeaderMap(w.Header()))
type HeaderMap = seam.HeaderMap

// HeaderRoom is memory for the headers of one response, which an adapter can allocate together with
// what else belongs to a request. Its fields are for [SetHeaders].
type HeaderRoom = seam.HeaderRoom

// SetHeaders is [core.Decision.SetHeaders] without an allocation in most cases. A [HeaderMap] refers to
// room afterwards, so room can't be used again; other headers get strings in it, which they must copy
// if room is used for another response. Without room, nil, memory is allocated.
func SetHeaders(d *core.Decision, h core.Header, room *HeaderRoom) { door.SetHeaders(d, h, room) }
