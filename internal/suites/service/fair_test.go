package service_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/client"
)

// A token has the share of its client: what is refunded is the client's again, and so is what was estimated too high.
func TestReservationsGiveTheShareBack(t *testing.T) {
	t.Parallel()
	s := newService(t)
	of := func(tenant string) string {
		return fmt.Sprintf(`{"policy":"fair","request":{"values":{"tenant":%q,"user":"ann"}}}`, tenant)
	}
	post(t, s, "/v1/check", of("light"))
	for i := range 40 { // four times the limit
		_, a := post(t, s, "/v1/reserve", of("heavy"))
		if a["allowed"] != true {
			t.Fatalf("reservation %d: %v", i, a)
		}
		body := fmt.Sprintf(`{"reservation":%q}`, a["reservation"])
		if i%2 == 0 {
			post(t, s, "/v1/refund", body)
		} else {
			post(t, s, "/v1/settle", strings.Replace(body, "}", `,"cost":0}`, 1))
		}
	}
	denied := 0
	for range 12 {
		if _, a := post(t, s, "/v1/check", of("heavy")); a["allowed"] != true {
			denied++
			limit := a["limits"].([]any)[0].(map[string]any)
			check.All(t, "a denial", []any{limit["standing"], limit["share"] != nil}, "over share", true)
		}
	}
	if denied < 3 {
		t.Errorf("%d of 12 requests of the heavy client are denied", denied)
	}
	_, a := post(t, s, "/v1/check", of("light"))
	check.Equal(t, "the light client", a["allowed"], any(true))
}

// What several clients ask of one limit is not one client's.
func TestClientsThatDivideALimitAreNotAskedTogether(t *testing.T) {
	t.Parallel()
	s := newService(t)
	status, a := post(t, s, "/v1/check", `{"together":[{"policy":"fair","request":{"values":{"tenant":"a"}}},{"policy":"fair","request":{"values":{"tenant":"b"}}}]}`)
	if status != 422 || !strings.Contains(fmt.Sprint(a), "two clients") {
		t.Errorf("%d %v", status, a)
	}
	status, a = post(t, s, "/v1/check", `{"together":[{"policy":"fair","request":{"values":{"tenant":"a"}}},{"policy":"fair","request":{"values":{"tenant":"a"}}}]}`)
	check.All(t, "one client twice", []any{status, a["allowed"]}, 200, true)
}

func TestTheClientKnowsShares(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newService(t))
	defer server.Close()
	c := must.Get(client.New(client.Config{URL: server.URL, Timeout: patience, Send: client.Fields{Values: []string{"tenant", "user", "plan"}}, OnOutage: client.OnOutage{Action: core.Deny}}))(t)
	l := must.Get(c.Limiter(core.Config{Store: c.Store()}, "fair"))(t)
	small := keyfuncs.Values{"tenant": "acme", "user": "ann", "plan": "small"}
	for range 2 {
		check.Equal(t, "of two", l.Allow(small).Allowed, true)
	}
	d := l.Allow(small)
	r := d.Results()[0]
	check.All(t, "the third", []any{d.Allowed, r.Standing, r.Remaining}, false, store.OverMaximum, 0)
}
