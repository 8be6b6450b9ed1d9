package inspect

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/internal/browser"
)

// actionHeader must be in each POST. Pages of other sites can't set it without the server's consent
// by CORS, which it never gives.
const actionHeader = "Weblimit-Inspect"

// maxBody bounds what a request may send. Keys have at most maxQuery bytes.
const maxBody = 8 << 10

// basicAuth returns an authorizer of users by name and password.
func basicAuth(users []User) func(*http.Request) (string, Permission) {
	type hashed struct {
		name, password [sha256.Size]byte
		actor          string
		may            Permission
	}
	all := make([]hashed, len(users))
	for i, u := range users {
		all[i] = hashed{sha256.Sum256([]byte(u.Name)), sha256.Sum256([]byte(u.Password)), u.Name, u.May}
	}
	return func(r *http.Request) (actor string, may Permission) {
		name, password, ok := r.BasicAuth()
		if !ok {
			return "", None
		}
		gotName, gotPassword := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))
		for i := range all { // all of them, so that the time says nothing
			u := &all[i]
			if subtle.ConstantTimeCompare(u.name[:], gotName[:])&subtle.ConstantTimeCompare(u.password[:], gotPassword[:]) == 1 {
				actor, may = u.actor, u.may
			}
		}
		return actor, may
	}
}

// knowsHost reports whether the page may be reached under the request's host.
func (h *Handler) knowsHost(r *http.Request) bool {
	if len(h.config.Hosts) > 0 {
		return browser.Knows(h.config.Hosts, r.Host)
	}
	return browser.IsLocal(r.Host)
}

// authorize returns who makes the request and what they may do. A panic of the application's function
// lets nobody in.
func (h *Handler) authorize(r *http.Request) (actor string, may Permission) {
	defer func() {
		if p := recover(); p != nil {
			h.log().Error("weblimit: inspect: Config.Authorize panics", "panic", fmt.Sprint(p))
			actor, may = "?", None
		}
	}()
	actor, may = h.config.Authorize(r)
	return actor, may
}

// checkPost returns an error unless the page, or a client that is no browser, sent a POST on purpose.
func (h *Handler) checkPost(r *http.Request) *problem {
	if err := h.crossOrigin.Check(r); err != nil {
		return &problem{http.StatusForbidden, "The request comes from a page of another origin."}
	}
	if r.Header.Get(actionHeader) == "" {
		return &problem{http.StatusForbidden, "The header " + actionHeader + " is missing. Any value will do."}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &problem{http.StatusUnsupportedMediaType, "The body must be application/json."}
	}
	return nil
}

// readBody reads the body of a POST, one JSON object.
func readBody(w http.ResponseWriter, r *http.Request, to any) *problem {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return &problem{http.StatusBadRequest, "The body must be one JSON object."}
		}
		return nil
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("The body must have at most %d bytes.", maxBody)}
	}
	return &problem{http.StatusBadRequest, "The body can't be read: " + strings.TrimPrefix(err.Error(), "json: ") + "."}
}
