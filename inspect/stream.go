package inspect

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	streamEvery = 2 * time.Second
	// A stream ends by itself, and the browser opens it again: so that who may no longer look, does not.
	streamFor = 5 * time.Minute
	// streamWrite is how long a client may take to read an event, whatever the server's WriteTimeout.
	streamWrite = 10 * time.Second
)

// serveStream sends an overview every two seconds, as server-sent events. It runs in the request's
// goroutine, without another one, and ends with the client.
func (h *Handler) serveStream(r *request) *problem {
	defer h.streams.Add(-1)
	if h.streams.Add(1) > int64(h.config.MaxStreams) {
		r.ResponseWriter.Header().Set("Retry-After", "30")
		return &problem{http.StatusServiceUnavailable, "As many pages are live as Config.MaxStreams lets. Poll overview."}
	}
	control := http.NewResponseController(r.ResponseWriter)
	header := r.ResponseWriter.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would collect events
	_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
	if err := control.Flush(); errors.Is(err, http.ErrNotSupported) {
		header.Del("X-Accel-Buffering")
		return &problem{http.StatusNotImplemented, "This server can't stream. Poll overview."}
	}
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	end := time.NewTimer(streamFor)
	defer end.Stop()
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for h.sendEvent(r, control) {
		select {
		case <-tick.C:
		case <-end.C:
			return nil
		case <-h.closed:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

// sendEvent sends an overview and reports whether the client is still there.
func (h *Handler) sendEvent(r *request, control *http.ResponseController) bool {
	o, err := h.overview(r.Context())
	if err != nil {
		return false
	}
	data, err := json.Marshal(h.sessionOf(r, o))
	if err != nil {
		return false
	}
	_ = control.SetWriteDeadline(time.Now().Add(streamWrite))
	event := make([]byte, 0, len(data)+64)
	event = append(event, "retry: 3000\nevent: overview\ndata: "...)
	event = append(event, data...)
	event = append(event, "\n\n"...)
	if _, err := r.ResponseWriter.Write(event); err != nil {
		return false
	}
	return control.Flush() == nil
}
