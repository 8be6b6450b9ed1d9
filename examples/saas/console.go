package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"errors"
	"html/template"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/quota"
)

//go:embed page
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"number": number, "date": date, "lastDay": lastDay}).ParseFS(files, "page/*.html"))

// console returns the page of whoever bills the tenants.
func (s *service) console() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/{$}", s.showTenants)
	mux.HandleFunc("GET /console/tenants/{id}", s.showTenant)
	mux.HandleFunc("GET /console/tenants/{id}/statement.json", s.statementJSON)
	mux.HandleFunc("GET /console/tenants/{id}/statement.csv", s.statementCSV)
	mux.HandleFunc("POST /console/tenants/{id}/top-up", s.topUp)
	mux.HandleFunc("POST /console/tenants/{id}/plan", s.changePlan)
	mux.HandleFunc("GET /console/style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "page/style.css")
	})
	// Browsers send the password along with whatever another site has them ask, so forms of other
	// sites are refused by what browsers say of where they come from.
	return guarded(s.loggedIn(http.NewCrossOriginProtection().Handler(mux)))
}

// guarded sets the headers of pages that hold no script and no style of their own, and refuses
// other host names: a site whose name leads to this machine is of another origin to the browser, and must not be of ours.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "not this host", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *service) loggedIn(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(password))
		if user != "billing" || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="billing", charset="UTF-8"`)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// account is what a page shows of a tenant.
type account struct {
	Tenant    *tenant
	Allowance quota.Allowance
	Used      int64
	End       time.Time // of the period
}

// Percent returns the use in percent of what is included, credits and adjustments counted.
func (a *account) Percent() int64 { return a.Used * 100 / max(a.Allowance.Units(), 1) }

// Left returns how many units are left until requests are denied.
func (a *account) Left() int64 { return max(a.Allowance.Hard-a.Used, 0) }

func (s *service) account(r *http.Request, t *tenant) (*account, error) {
	allowance, used, err := s.book.Allowance(r.Context(), limitName, t.Key(), time.Now())
	return &account{t, allowance, used.Used, used.End}, err
}

func (s *service) showTenants(w http.ResponseWriter, r *http.Request) {
	var accounts []*account
	for i := range tenants {
		a, err := s.account(r, &tenants[i])
		if err != nil {
			fail(w, err)
			return
		}
		accounts = append(accounts, a)
	}
	show(w, "tenants.html", map[string]any{"Accounts": accounts, "Notices": s.notices.list()})
}

func (s *service) showTenant(w http.ResponseWriter, r *http.Request) {
	t := tenantByID(r.PathValue("id"))
	if t == nil {
		http.NotFound(w, r)
		return
	}
	a, err := s.account(r, t)
	if err != nil {
		fail(w, err)
		return
	}
	statement, err := s.book.Statement(r.Context(), limitName, t.Key(), time.Now())
	if err != nil {
		fail(w, err)
		return
	}
	most := int64(1)
	for _, day := range statement.Days {
		most = max(most, day.Used)
	}
	show(w, "tenant.html", map[string]any{
		"Account": a, "Statement": statement, "Most": most, "Plans": plans,
		"Operation": "console-" + rand.Text(), // of a top-up: a form that is sent twice counts once
		"Done":      done[r.URL.Query().Get("done")],
	})
}

// done are the outcomes of forms, for the page that they lead to.
var done = map[string]string{
	"credited": "The units are credited.",
	"before":   "This operation was done before. Nothing has changed.",
	"plan":     "The plan is changed.",
}

func show(w http.ResponseWriter, name string, data any) {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, data); err != nil {
		log.Print(err)
		http.Error(w, "the page can't be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := page.WriteTo(w); err != nil {
		log.Print(err) // the client has hung up
	}
}

// statement finds the statement that a request asks for: that of now, or of ?at=2026-10-31.
func (s *service) statement(w http.ResponseWriter, r *http.Request) *quota.Statement {
	t := tenantByID(r.PathValue("id"))
	if t == nil {
		http.NotFound(w, r)
		return nil
	}
	at, err := time.Parse(time.DateOnly, cmp.Or(r.URL.Query().Get("at"), time.Now().UTC().Format(time.DateOnly)))
	if err != nil {
		http.Error(w, "at must be a day such as 2026-10-31", http.StatusBadRequest)
		return nil
	}
	statement, err := s.book.Statement(r.Context(), limitName, t.Key(), at)
	if err != nil {
		fail(w, err)
		return nil
	}
	return statement
}

func (s *service) statementJSON(w http.ResponseWriter, r *http.Request) {
	if statement := s.statement(w, r); statement != nil {
		writeJSON(w, statement)
	}
}

func (s *service) statementCSV(w http.ResponseWriter, r *http.Request) {
	statement := s.statement(w, r)
	if statement == nil {
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	if err := quota.WriteCSV(w, statement); err != nil {
		log.Print(err)
	}
}

// topUp credits units that a tenant has bought.
func (s *service) topUp(w http.ResponseWriter, r *http.Request) {
	t := tenantByID(r.PathValue("id"))
	units, err := strconv.ParseInt(r.PostFormValue("units"), 10, 64)
	operation := r.PostFormValue("operation")
	switch {
	case t == nil:
		http.NotFound(w, r)
		return
	case err != nil || units < 1 || units > 1_000_000:
		http.Error(w, "units must be from 1 to 1,000,000", http.StatusUnprocessableEntity)
		return
	case operation == "" || len(operation) > 100:
		http.Error(w, "operation must be 1 to 100 characters", http.StatusUnprocessableEntity)
		return
	}
	applied, err := s.book.Credit(r.Context(), quota.Credit{
		Operation: operation, Limit: limitName, Tenant: t.Key(), Units: units, Reason: "top-up",
	})
	if err != nil {
		fail(w, err)
		return
	}
	outcome := "credited"
	if !applied {
		outcome = "before"
	}
	back(w, r, t, outcome)
}

// changePlan gives a tenant another plan from now on.
func (s *service) changePlan(w http.ResponseWriter, r *http.Request) {
	t, name := tenantByID(r.PathValue("id")), r.PostFormValue("plan")
	switch {
	case t == nil:
		http.NotFound(w, r)
		return
	case !slices.ContainsFunc(plans, func(p plan) bool { return p.Name == name }):
		http.Error(w, "there is no such plan", http.StatusUnprocessableEntity)
		return
	}
	if err := s.book.Assign(r.Context(), quota.Assignment{Limit: limitName, Tenant: t.Key(), Plan: name}); err != nil {
		fail(w, err)
		return
	}
	back(w, r, t, "plan")
}

// back leads a browser to the page of a tenant, so that loading it again sends no form.
func back(w http.ResponseWriter, r *http.Request, t *tenant, outcome string) {
	http.Redirect(w, r, "/console/tenants/"+url.PathEscape(t.ID)+"?done="+outcome, http.StatusSeeOther)
}

// number groups digits: 1,000,000.
func number(n any) (string, error) {
	var text string
	switch n := n.(type) {
	case int:
		text = strconv.Itoa(n)
	case int64:
		text = strconv.FormatInt(n, 10)
	default:
		return "", errors.New("number is for int and int64")
	}
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text, nil
}

func date(t time.Time) string { return t.UTC().Format("2 January 2006") }

// lastDay returns the last day before the end of a period.
func lastDay(end time.Time) string { return date(end.Add(-1)) }
