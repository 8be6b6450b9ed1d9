package fiber3limit

import "github.com/weblimit/weblimit/internal/fiberhttp"

// source is a request as fiberhttp reads it.
type source request

var _ fiberhttp.Source = (*source)(nil)

func (s *source) Block() []byte              { return s.c.Request().Header.RawHeaders() }
func (s *source) Host() []byte               { return s.c.RequestCtx().URI().Host() }
func (s *source) Lines(name string) [][]byte { return s.c.Request().Header.PeekAll(name) }
func (s *source) ExactNames() bool           { return s.settings.exactNames }
func (s *source) Streams() bool              { return s.settings.streams }

func (s *source) VisitTrailer(add func(name []byte)) {
	for name := range s.c.Request().Header.Trailers() {
		add(name)
	}
}

func (s *source) Visit(kind fiberhttp.Kind, add func(name, value []byte)) {
	switch header := &s.c.Request().Header; kind {
	case fiberhttp.Header:
		for name, value := range header.All() {
			add(name, value)
		}
	case fiberhttp.Cookie:
		for name, value := range header.Cookies() {
			add(name, value)
		}
	case fiberhttp.Query:
		for name, value := range s.c.RequestCtx().QueryArgs().All() {
			add(name, value)
		}
	}
}
