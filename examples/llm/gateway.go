package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/llmlimit"
	"github.com/weblimit/weblimit/nethttp"
)

//go:embed prices.json
var priceFile []byte

// provider is where a gateway sends requests of one API, and the key that it has there.
type provider struct {
	url *url.URL
	key string
}

// newGateway stands in front of OpenAI and Anthropic. Customers have keys of the gateway, and never see those of the
// providers.
//
// Addresses are counted before keys are checked, and keys are checked before anything else is counted. So made-up
// keys use up nothing, and trying out keys is slow.
func newGateway(store core.Store, openAI, anthropic provider) (http.Handler, error) {
	prices, err := llmlimit.ReadPrices(bytes.NewReader(priceFile))
	if err != nil {
		return nil, err
	}
	meter, err := llmlimit.New(llmlimit.Config{
		Prices: prices, Peek: 1 << 20, BytesPerToken: 2, EndAtEstimate: true, AskForUsage: true, Observe: observe,
		Trust: []string{openAI.url.Host, anthropic.url.Host}, // nobody else chooses them
	})
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Transport: meter.Transport(nil), Rewrite: func(r *httputil.ProxyRequest) { forward(r, openAI, anthropic) }}

	limits := nethttp.With(core.Config{Store: store}, nethttp.Config{Denied: meter.Denied})
	perAddress := limits.Limit(core.PerMinute(600).By(keyfuncs.ClientIP()).Named("address"))
	perCustomer := limits.Limit(customerLimits(meter)...)
	mux := http.NewServeMux()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		mux.Handle("POST "+path, perAddress(authenticate(meter.Read(perCustomer(proxy)))))
	}
	return mux, nil
}

// customerLimits decide a call together: it passes all of them, or takes nothing of any.
func customerLimits(meter *llmlimit.Meter) []core.Limit {
	customer := keyfuncs.User(customerKey{})
	plan := meter.Limit("plan", llmlimit.Money, core.PerMonth(5_000_000, time.UTC).By(customer))                         // $5 a month
	credits := meter.Limit("credits", llmlimit.Money, core.Per(20_000_000, 365*24*time.Hour).FixedWindow().By(customer)) // $20 a year
	return []core.Limit{
		core.Concurrent(8).By(customer).Named("streams"),
		meter.Limit("requests", llmlimit.Requests, core.PerMinute(60).By(customer)),
		meter.Limit("tokens", llmlimit.Tokens, core.PerMinute(20_000).By(customer, meter.Model())),
		// The plan pays, and once it is used up, credits do; also for what a call costs beyond its estimate.
		core.First(plan.SpillOver(), credits),
		// What the providers grant this gateway, for all customers. Those who try it for nothing take what is idle, and
		// never the last quarter. No customer is told how large it is.
		meter.Limit("account", llmlimit.Tokens, core.PerMinute(400_000).By(keyfuncs.Everyone()).Classes(
			core.Class{Name: "paying", When: keyfuncs.Matches(pays), Keep: 0.25},
			core.Class{Name: "trial"},
		)).Hidden(),
	}
}

// customer is somebody who has a key.
type customer struct {
	id   string
	pays bool
}

// customers stands in for a table of API keys: a real one holds hashes.
var customers = map[string]customer{"demo": {"alice", true}, "other": {"bob", true}, "trial": {"carol", false}}

type (
	customerKey struct{} // of the customer's ID in a context
	paysKey     struct{} // of whether it pays
)

// authenticate looks up the customer of an API key, which libraries of OpenAI send as a bearer token, and those of
// Anthropic as X-API-Key.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := r.Header.Values("X-API-Key")
		for _, line := range r.Header.Values("Authorization") {
			sent = append(sent, strings.TrimPrefix(line, "Bearer "))
		}
		found, ok := customers[cmp.Or(append(sent, "")[0])]
		if len(sent) != 1 || !ok {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"message":"no such key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`))
			return
		}
		ctx := context.WithValue(r.Context(), customerKey{}, found.id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, paysKey{}, found.pays)))
	})
}

func pays(r keyfuncs.Request) bool {
	is, _ := r.Value(paysKey{}).(bool)
	return is
}

// forward sends a request to its provider, with the gateway's key in place of the customer's.
func forward(r *httputil.ProxyRequest, openAI, anthropic provider) {
	r.Out.Header.Del("Authorization")
	r.Out.Header.Del("X-Api-Key")
	r.Out.Header.Del("Cookie")
	if llmlimit.APIOf(r.In.URL.Path) == llmlimit.Anthropic {
		r.SetURL(anthropic.url)
		r.Out.Header.Set("X-Api-Key", anthropic.key)
		return
	}
	r.SetURL(openAI.url)
	r.Out.Header.Set("Authorization", "Bearer "+openAI.key)
}

// observe logs what a call has cost, for whoever asks why a plan is used up.
func observe(ctx context.Context, s llmlimit.Spent) {
	id, _ := ctx.Value(customerKey{}).(string)
	d, _ := core.FromContext(ctx)
	slog.InfoContext(ctx, "call", "customer", id, "model", s.Call.Name, "status", s.Status, "input", s.Usage.Input,
		"output", s.Usage.Output, "told", s.InputTold && s.OutputTold, "ended", s.EndedAtLimit, "micros", s.Cost, "paid_by", d.PaidBy())
}
