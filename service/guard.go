package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/browser"
)

// admit returns why a request may not be served at all, or nil.
func (s *Service) admit(r *http.Request) *problem {
	if len(s.config.Hosts) > 0 && !browser.Knows(s.config.Hosts, r.Host) {
		return &problem{status: http.StatusMisdirectedRequest, detail: "The service is not asked under this host."}
	}
	// Web pages of any origin, that of the service included: with DNS rebinding a page of anybody has
	// the origin of the service. Programs other than browsers send neither field.
	if browser.FromPage(r) {
		return &problem{status: http.StatusForbidden, detail: "The service does not answer web pages."}
	}
	if len(s.tokens) > 0 && !s.hasToken(r) {
		return &problem{status: http.StatusUnauthorized, detail: "The service needs a token: Authorization: Bearer …"}
	}
	return nil
}

// hasToken reports whether a request has one of the tokens. The time says nothing about them: what is
// compared are hashes of equal length, with each token, whichever of them fits.
func (s *Service) hasToken(r *http.Request) bool {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	got, has := sha256.Sum256([]byte(token)), 0
	for i := range s.tokens {
		has |= subtle.ConstantTimeCompare(s.tokens[i][:], got[:])
	}
	return has == 1 && strings.EqualFold(scheme, "Bearer")
}

// read reads the body of a POST into buf. What a caller may not send is refused before its body is read. So
// are compressed bodies, of which a few bytes can become gigabytes.
func (s *Service) read(w http.ResponseWriter, r *http.Request, buf []byte) ([]byte, error) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, &problem{status: http.StatusUnsupportedMediaType, detail: "The body must be application/json."}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, &problem{status: http.StatusUnsupportedMediaType, detail: "The body must not be compressed."}
	}
	if r.ContentLength > int64(s.config.MaxBody) {
		return nil, s.tooLarge()
	}
	// An error says that the server has no deadlines, as in tests.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	body := http.MaxBytesReader(w, r.Body, int64(s.config.MaxBody))
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)] // grows as append does
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			// The connection's next request may come at any time.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			return buf, nil
		}
		if err != nil {
			if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
				return nil, s.tooLarge()
			}
			return nil, &problem{status: http.StatusBadRequest, detail: "The body can't be read, or took too long."}
		}
	}
}

func (s *Service) tooLarge() *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("The body has more than %d bytes.", s.config.MaxBody)}
}

// isJSON reports whether a body is JSON in UTF-8. A web page can send this type to another origin only after
// that has agreed, unlike forms and plain text.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json" && (params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8"))
}

// enter takes a place among the calls that are decided at once, or returns that there is none. Nobody
// waits for one: a queue would answer callers that have given up.
func (s *Service) enter() *problem {
	select {
	case s.inFlight <- struct{}{}:
		return nil
	default:
		return &problem{status: http.StatusServiceUnavailable, retryAfter: 1, detail: "The service has too many calls in flight."}
	}
}

func (s *Service) leave() { <-s.inFlight }
