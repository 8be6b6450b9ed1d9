package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/quota"
)

// patience is how long a decision may take. A tenant's first one in a month asks PostgreSQL, too.
var patience = time.Second

// limitName is the name of the limit that is billed.
const limitName = "plan"

// plan is what the service sells.
type plan struct {
	Name     string
	Included int64 // requests a month
	Hard     int64 // where requests are denied; those above Included are overage
}

var plans = []plan{
	{"free", 20, 20},
	{"team", 1000, 1200},
	{"business", 100_000, 120_000},
}

// tenant is a customer.
type tenant struct {
	ID     string
	Name   string
	Plan   string // on the first start
	apiKey string // a real service keeps only a hash
}

// Key returns the tenant's key in the book, which is that of keyfuncs.Tenant.
func (t *tenant) Key() string { return keyfuncs.Encode("tenant", t.ID) }

var tenants = []tenant{
	{"acme", "Acme Rockets", "free", "acme-key"},
	{"globex", "Globex", "team", "globex-key"},
	{"initech", "Initech", "business", "initech-key"},
}

func tenantByID(id string) *tenant {
	for i := range tenants {
		if tenants[i].ID == id {
			return &tenants[i]
		}
	}
	return nil
}

// service is the application.
type service struct {
	book     *quota.Book
	notices  *notices
	password string // of the console
	api      http.Handler
}

// newService defines the plans, gives each tenant its first one, and makes the limits.
func newService(ctx context.Context, book *quota.Book, arriving *notices, password string) (*service, error) {
	s := &service{book: book, notices: arriving, password: password}
	s.api = s.customers()
	for _, p := range plans {
		if err := book.SetPlan(ctx, quota.Plan{Limit: limitName, Name: p.Name, Included: p.Included, Hard: p.Hard}); err != nil {
			return nil, err
		}
	}
	for i := range tenants {
		t := &tenants[i]
		allowance, _, err := book.Allowance(ctx, limitName, t.Key(), time.Now())
		if err != nil {
			return nil, err
		}
		if allowance.Plan != "" {
			continue // from an earlier start
		}
		if err := book.Assign(ctx, quota.Assignment{Limit: limitName, Tenant: t.Key(), Plan: t.Plan}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.api)
	mux.Handle("/console/", s.console())
	mux.HandleFunc("POST /hooks/notices", s.notices.receive)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusFound))
	return mux
}

// tenantKey is where the tenant's id is in a request's context.
type tenantKey struct{}

// customers returns the API of the customers.
func (s *service) customers() http.Handler {
	limits := nethttp.With(core.Config{Store: s.book.Store(), Headers: core.Draft11 | core.XQuota, Timeout: patience})
	who := keyfuncs.Tenant(tenantKey{})
	perSecond := core.PerSecond(50).By(who).Named("second")
	monthly := s.book.PerTenant(core.PerMonth(plans[0].Hard, time.UTC).Named(limitName), who)

	mux := http.NewServeMux()
	mux.Handle("GET /v1/report", limits.Limit(perSecond, monthly)(http.HandlerFunc(report)))
	mux.Handle("GET /v1/usage", limits.Limit(perSecond)(http.HandlerFunc(s.usage)))
	return authenticated(mux)
}

// authenticated finds out which tenant's API key a request has.
func authenticated(next http.Handler) http.Handler {
	byKey := map[string]string{}
	for _, t := range tenants {
		byKey[t.apiKey] = t.ID
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := byKey[r.Header.Get("X-API-Key")]
		if !ok {
			http.Error(w, "X-API-Key is none of a tenant", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, id)))
	})
}

// report is what the service sells.
func report(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "a report worth paying for")
}

// usage tells customers what they have used, without costing them a request.
func (s *service) usage(w http.ResponseWriter, r *http.Request) {
	t := tenantByID(r.Context().Value(tenantKey{}).(string))
	statement, err := s.book.Statement(r.Context(), limitName, t.Key(), time.Now())
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, statement)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		log.Print(err) // the client has hung up
	}
}

// fail answers a request that the book could not serve. What is wrong goes to the log, not to
// the client.
func fail(w http.ResponseWriter, err error) {
	log.Print(err)
	switch {
	case errors.Is(err, quota.ErrReused):
		http.Error(w, "this operation id was used before, for another change", http.StatusConflict)
	default:
		http.Error(w, "the book does not answer", http.StatusServiceUnavailable)
	}
}
