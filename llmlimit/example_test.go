package llmlimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/llmlimit"
	"github.com/weblimit/weblimit/nethttp"
)

// customer is the key of the customer in a request's context, where middleware has put it that has checked an API key.
type customer struct{}

const priceFile = `{"currency": "USD", "models": [{"model": "gpt-4o-mini*", "input": 150000, "cache_read": 75000, "output": 600000, "max_output": 16384}]}`

// chat is a model that answers each request with the same usage.
func chat(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Hi!"}}],"usage":{"prompt_tokens":1000,"completion_tokens":2000,"total_tokens":3000}}`)
}

// gateway is the code of docs/use/models.md.
func gateway(store core.Store, prices *llmlimit.Prices, upstream *url.URL) http.Handler {
	meter := llmlimit.Must(llmlimit.New(llmlimit.Config{Prices: prices}))
	user := keyfuncs.User(customer{})
	limits := nethttp.With(core.Config{Store: store}, nethttp.Config{Denied: meter.Denied})
	limit := limits.Limit(
		meter.Limit("requests", llmlimit.Requests, core.PerMinute(60).By(user)),
		meter.Limit("tokens", llmlimit.Tokens, core.PerMinute(100_000).By(user, meter.Model())),
		meter.Limit("money", llmlimit.Money, core.PerMonth(50_000_000, time.UTC).By(user)), // $50
	)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: meter.Transport(nil),
	}
	handler := meter.Read(limit(proxy))
	return handler
}

// A gateway reserves what a request may cost, and tells of the limit as the provider would.
func ExampleMeter_Transport() {
	prices, err := llmlimit.ReadPrices(strings.NewReader(priceFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	model := httptest.NewServer(http.HandlerFunc(chat))
	defer model.Close()
	upstream, err := url.Parse(model.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := gateway(core.NewMemory(), prices, upstream)
	for range 2 {
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"model":"gpt-4o-mini","n":4,"messages":[]}`))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customer{}, "alice")))
		fmt.Printf("%d limit %s wait %t\n", w.Code, w.Header().Get("X-Ratelimit-Limit-Tokens"), w.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200 limit 100000 wait false
	// 429 limit 100000 wait true
}

// A program has a budget of its own for the model that it calls.
func ExampleMeter_Limited() {
	model := httptest.NewServer(http.HandlerFunc(chat))
	defer model.Close()
	meter := llmlimit.Must(llmlimit.New(llmlimit.Config{
		Trust: []string{strings.TrimPrefix(model.URL, "http://")}, // it is none of the providers'
	}))
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		meter.Limit("tokens", llmlimit.Tokens, core.PerDay(10_000).FixedWindow().By(keyfuncs.Everyone())),
	})
	client := &http.Client{Transport: meter.Limited(nil, limiter)}
	for range 4 {
		res, err := client.Post(model.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","max_tokens":2500}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		fmt.Printf("%d %q\n", res.StatusCode, res.Header.Get("X-Should-Retry"))
		if err := limiter.Drain(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 200 ""
	// 200 ""
	// 200 ""
	// 429 "false"
}

// What is read of an answer whose bytes come by another way.
func ExampleReader() {
	r := llmlimit.NewReader(llmlimit.Anthropic, http.Header{"Content-Type": {"text/event-stream"}})
	for _, chunk := range []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"cache_read_inp",
		"ut_tokens\":100,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n",
	} {
		_, _ = io.WriteString(r, chunk)
		report := r.Report()
		fmt.Println(report.Input, report.CacheRead, report.Output, report.OutputTold)
	}
	// Output:
	// 25 0 0 false
	// 125 100 15 true
}

func ExamplePrice_Cost() {
	prices, err := llmlimit.ReadPrices(strings.NewReader(priceFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	price, known := prices.Find("gpt-4o-mini-2024-07-18")
	micros := price.Cost(llmlimit.Usage{Input: 1000, CacheRead: 400, Output: 2000})
	fmt.Println(price.Model, known, micros, "millionths of a", prices.Currency())
	// Output: gpt-4o-mini* true 1320 millionths of a USD
}
