package adapter

import "github.com/weblimit/weblimit/internal/seam"

// HeaderMap is a map of response headers to write a decision to. It has the methods of an
// http.Header, for names in canonical form only, and a decision is written to the map itself,
// without copies:
//
//	c.Decision.SetHeaders(adapter.HeaderMap(w.Header()))
type HeaderMap = seam.HeaderMap
