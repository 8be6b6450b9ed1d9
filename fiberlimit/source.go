package fiberlimit

import "github.com/weblimit/weblimit/internal/fiberhttp"

// source is a request as fiberhttp reads it.
type source request

var _ fiberhttp.Source = (*source)(nil)

func (s *source) Block() []byte              { return s.c.Request().Header.RawHeaders() }
func (s *source) Host() []byte               { return s.c.Context().URI().Host() }
func (s *source) Lines(name string) [][]byte { return s.c.Request().Header.PeekAll(name) }
func (s *source) ExactNames() bool           { return s.settings.exactNames }
func (s *source) Streams() bool              { return s.settings.streams }

func (s *source) VisitTrailer(add func(name []byte)) { s.c.Request().Header.VisitAllTrailer(add) }

func (s *source) Visit(kind fiberhttp.Kind, add func(name, value []byte)) {
	switch header := &s.c.Request().Header; kind {
	case fiberhttp.Header:
		header.VisitAll(add)
	case fiberhttp.Cookie:
		header.VisitAllCookie(add)
	case fiberhttp.Query:
		s.c.Context().QueryArgs().VisitAll(add)
	}
}
