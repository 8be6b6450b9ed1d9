package envoy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/weblimit/weblimit/internal/browser"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody bounds the body of a request.
const maxBody = 4 << 20 // as gRPC's

// JSON returns the handler of POST /json, for callers that don't speak gRPC. The body is a
// RateLimitRequest in the JSON of protocol buffers, and the answer a RateLimitResponse with status 200,
// or 429 if it is over a limit. Web pages are refused. A request that is none is answered with 400, and an outage that is to
// be an error with 503.
func (s *Server) JSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		if browser.FromPage(r) { // any page in a browser on this machine could use up limits
			http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var request rls.RateLimitRequest
		if err == nil {
			err = s.readJSON(body, &request)
		}
		if err != nil {
			http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
			return
		}
		response, err := s.ShouldRateLimit(r.Context(), &request)
		if err != nil {
			code := http.StatusBadRequest
			if status.Code(err) != codes.InvalidArgument {
				code = http.StatusServiceUnavailable
			}
			http.Error(w, status.Convert(err).Message(), code)
			return
		}
		written, err := protojson.Marshal(response)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if response.GetOverallCode() == overCode {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(written)
	})
}

// readJSON reads a request, unless it has more objects than one can have: each takes three bytes of text,
// and a hundred and more of memory.
func (s *Server) readJSON(body []byte, to *rls.RateLimitRequest) error {
	most := 1 + (s.config.MaxDescriptors+1)*(s.config.MaxEntries+3)
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		switch token, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return protojson.Unmarshal(body, to)
		case err != nil:
			return err
		case token != json.Delim('{'):
		case most == 0:
			return errTooMany
		default:
			most--
		}
	}
}

var errTooMany = errors.New("weblimit: envoy: the request has too many descriptors or entries")

// Healthcheck returns the handler of GET /healthcheck: 200 and OK, or 500 after Shutdown.
func (s *Server) Healthcheck() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := s.health.Check(r.Context(), &healthpb.HealthCheckRequest{Service: healthName})
		if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "OK")
	})
}
