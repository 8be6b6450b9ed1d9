package service

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// problem is an error as callers get it, by RFC 9457. Denials are none: they are answers.
type problem struct {
	status     int
	detail     string // for people
	pointer    string // a JSON Pointer to what is wrong, or ""
	retryAfter int    // seconds, or 0
}

func (p *problem) Error() string { return p.detail }

// badField returns the problem of a field.
func badField(pointer, detail string) *problem {
	return &problem{status: http.StatusUnprocessableEntity, pointer: pointer, detail: detail}
}

// problemOf returns an error as a problem.
func problemOf(err error) *problem {
	if p := (*problem)(nil); errors.As(err, &p) {
		return p
	}
	if e := (*strict.Error)(nil); errors.As(err, &e) {
		return &problem{status: http.StatusBadRequest, pointer: e.Pointer, detail: sentence(e.Detail)}
	}
	return &problem{status: http.StatusInternalServerError, detail: "The service has failed."}
}

// sentence makes a sentence of an error's text.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first := text[0]
	if 'a' <= first && first <= 'z' {
		first -= 'a' - 'A'
	}
	return string(first) + text[1:] + "."
}

// append appends the problem as JSON.
func (p *problem) append(dst []byte) []byte {
	dst = append(dst, `{"type":"about:blank","title":`...)
	dst = appendText(dst, http.StatusText(p.status))
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(p.status), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendText(dst, p.detail)
	if p.pointer != "" {
		dst = append(dst, `,"pointer":`...)
		dst = appendText(dst, p.pointer)
	}
	return append(dst, '}')
}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", core.ProblemType)
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(append(p.append(nil), '\n'))
}

// storeProblem is the problem of a store that does not answer where no outage action decides.
func (s *Service) storeProblem(err error, what string) *problem {
	s.log.Warn("weblimit: service: the store did not answer", slog.String("error", err.Error()))
	return &problem{status: http.StatusServiceUnavailable, retryAfter: 1, detail: "The store does not answer. " + what}
}
