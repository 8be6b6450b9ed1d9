package service

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// adapterName is how observers know the service.
const adapterName = "service"

// scratch is the working memory of a call.
type scratch struct{ body, out []byte }

// maxScratch is how much of it is kept for the next call: one large body is not to stay in memory for ever.
const maxScratch = 256 << 10

// exchange is a call that is being served.
type exchange struct {
	*scratch
	w http.ResponseWriter
	r *http.Request

	// asks are not used again for another call: the RateLimit field of the response is a part of a
	// decision, and the server reads it after the handler has returned.
	asks []compose.Ask
}

// calls are the paths that take a POST. openapi.json describes each.
var calls = map[string]func(*Service, *exchange) error{
	"/v1/check":   (*Service).serveCheck,
	"/v1/checks":  (*Service).serveChecks,
	"/v1/peek":    (*Service).servePeek,
	"/v1/reserve": (*Service).serveReserve,
	"/v1/settle":  (*Service).serveSettle,
	"/v1/refund":  (*Service).serveRefund,
	"/v1/renew":   (*Service).serveRenew,
	"/v1/charge":  (*Service).serveCharge,
}

// newMux returns the paths of the API.
func (s *Service) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for path, serve := range calls {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.post(w, r, serve) })
	}
	mux.HandleFunc("/v1/openapi.json", serveOpenAPI)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		(&problem{status: http.StatusNotFound, detail: "The API has no such path."}).write(w)
	})
	return mux
}

// ServeHTTP implements [http.Handler].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p := s.admit(r); p != nil {
		if p.status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", "Bearer")
		}
		p.write(w)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// post serves a call. The body is read before the call takes a place among those in flight, so that callers whose bodies
// arrive slowly keep nobody else out.
func (s *Service) post(w http.ResponseWriter, r *http.Request, serve func(*Service, *exchange) error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		(&problem{status: http.StatusMethodNotAllowed, detail: "This path takes POST alone."}).write(w)
		return
	}
	e := &exchange{scratch: s.scratch.Get().(*scratch), w: w, r: r}
	defer func() {
		if cap(e.body)+cap(e.out) < maxScratch {
			s.scratch.Put(e.scratch)
		}
	}()
	var err error
	if e.body, err = s.read(w, r, e.body); err == nil {
		if p := s.enter(); p != nil {
			p.write(w)
			return
		}
		defer s.leave()
		err = serve(s, e)
	}
	if err != nil {
		problemOf(err).write(w)
	}
}

// context returns the context of decisions, which does not end when the caller hangs up. A decision that ended there would
// have charged or not, and nobody would know which.
func (e *exchange) context() context.Context { return context.WithoutCancel(e.r.Context()) }

// readBody reads the body, which is one JSON value.
func readBody[T any](body []byte, read func(*strict.Reader) (T, error)) (T, error) {
	r := strict.NewReader(body)
	v, err := read(r)
	if err == nil {
		err = r.End()
	}
	return v, err
}

// serveCheck decides one call.
func (s *Service) serveCheck(e *exchange) error { return s.serveCall(e, false, false) }

// servePeek says what would be decided.
func (s *Service) servePeek(e *exchange) error { return s.serveCall(e, true, false) }

// serveReserve is serveCheck with a token by which the charges can be corrected.
func (s *Service) serveReserve(e *exchange) error { return s.serveCall(e, false, true) }

func (s *Service) serveCall(e *exchange, peek, reserve bool) error {
	byStatus, err := deniedByStatus(e.r)
	if err != nil {
		return err
	}
	c, err := s.readCall(e)
	switch {
	case err != nil:
		return err
	case reserve && c.hold:
		return badField("/hold", "A reserve holds everything in any case.")
	}
	if err := s.decideHere(e, c, peek, reserve); err != nil {
		return err
	}
	headers := adapter.HeaderMap(e.w.Header())
	e.out = appendAnswer(e.out[:0], c, e.asks, headers)
	if e.out, err = s.appendReservation(e.out, c, e.asks, reserve); err != nil {
		return err
	}
	e.answer(e.status(byStatus, headers))
	return nil
}

// readCall reads the call that is the body.
func (s *Service) readCall(e *exchange) (*call, error) {
	return readBody(e.body, func(r *strict.Reader) (*call, error) { return readCall(r, s.config.MaxChecks) })
}

// decideHere decides the call of an exchange. With hold, its questions say what they have charged.
func (s *Service) decideHere(e *exchange, c *call, peek, hold bool) (err error) {
	ctx := e.context()
	if e.asks, err = s.asks(ctx, c, ""); err != nil {
		return err
	}
	return s.decide(ctx, c, e.asks, "", peek, hold)
}

// noQuery refuses a query.
func (e *exchange) noQuery() error {
	if e.r.URL.RawQuery != "" {
		return &problem{status: http.StatusBadRequest, detail: "This path takes no query."}
	}
	return nil
}

// status returns the status of the response to a call that was decided.
func (e *exchange) status(byStatus bool, headers adapter.HeaderMap) int {
	if !byStatus {
		delete(headers, "Www-Authenticate") // it is about the client, and not about the caller
		return http.StatusOK
	}
	return statusOf(leading(e.asks))
}

// decide decides the checks of a call together.
func (s *Service) decide(ctx context.Context, c *call, asks []compose.Ask, pointer string, peek, hold bool) error {
	for i := range asks {
		asks[i].Hold, asks[i].Warn = hold || c.hold, c.warnings
	}
	switch atMost := asks[0].AtMost; {
	case atMost && peek:
		return badField(pointer+"/at_most", "Nothing is granted without a charge, and all is charged by a charge.")
	case atMost && c.operation != "":
		// A repeat would be granted another number than the first.
		return badField(pointer+"/operation", "What is granted in part can't be repeated: if the answer is lost, it stays charged.")
	case c.warnings && peek:
		return badField(pointer+"/warnings", "Only check, checks and reserve reach a level.")
	case c.hold && peek:
		return badField(pointer+"/hold", "Nothing is charged that could be held.")
	case (c.hold || hold && !peek) && c.operation != "":
		// A repeat is charged nothing, so it would have nothing to settle.
		return badField(pointer+"/operation", "What is held can't be repeated: if the answer is lost, it stays charged.")
	}
	if !peek {
		return askProblem(c, pointer, compose.Together(ctx, adapterName, c.timeout, asks))
	}
	if c.operation != "" {
		return badField(pointer+"/operation", "A peek charges nothing that could be repeated.")
	}
	err := compose.PeekTogether(ctx, c.timeout, asks)
	if bad := (*compose.AskError)(nil); err != nil && !errors.As(err, &bad) {
		return s.storeProblem(err, "What would be decided is not known.")
	}
	return askProblem(c, pointer, err)
}

// askProblem returns why checks can't be decided together.
func askProblem(c *call, pointer string, err error) error {
	if err == nil {
		return nil
	}
	bad := (*compose.AskError)(nil)
	if !errors.As(err, &bad) {
		return err
	}
	return badField(c.pointer(pointer, bad.Ask), sentence(bad.Text))
}

// deniedByStatus reports whether the caller wants a denial as the status of the response. It is
// an answer like any other otherwise: a call that has been answered has succeeded.
func deniedByStatus(r *http.Request) (bool, error) {
	switch r.URL.RawQuery {
	case "":
		return false, nil
	case "denied=status":
		return true, nil
	}
	return false, &problem{status: http.StatusBadRequest, detail: "The query may be denied=status, and nothing else."}
}

// answer writes e.out.
func (e *exchange) answer(status int) {
	h := e.w.Header()
	h["Content-Type"] = jsonType
	e.out = append(e.out, '\n')
	h["Content-Length"] = []string{strconv.Itoa(len(e.out))}
	e.w.WriteHeader(status)
	_, _ = e.w.Write(e.out)
}

var jsonType = []string{"application/json"}[:1:1]
