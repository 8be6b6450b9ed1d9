package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// An operation is that of one client: another may choose the same ID.
func TestChargesOfOneOperationForTwoClients(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, user := range []string{"ann", "bob"} {
		wantStatus(t, s, 200, "/v1/charge", fmt.Sprintf(`{"policy":"tokens","key":"user:%s","costs":{"tokens":100},"operation":"1"}`, user))
	}
	drain(t, s)
	must.Equal(t, "left for ann", remaining(t, s, "user:ann"), 900)
	must.Equal(t, "left for bob", remaining(t, s, "user:bob"), 900)
}

// Huge costs wrap round nowhere.
func TestHugeChargesNeverGiveQuota(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for range 40 {
		wantStatus(t, s, 200, "/v1/charge", fmt.Sprintf(`{"policy":"tokens","key":"user:ann","costs":{"tokens":%d,"requests":%d}}`, int64(1)<<53, int64(1)<<53))
		drain(t, s)
		wantStatus(t, s, 429, "/v1/check?denied=status", `{"policy":"tokens","key":"user:ann","cost":1}`)
	}
	token := ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"user:bob","costs":{"tokens":1}}`).Reservation
	wantStatus(t, s, 200, "/v1/settle", fmt.Sprintf(`{"reservation":%q,"costs":{"tokens":%d}}`, token, int64(1)<<53))
	drain(t, s)
	wantStatus(t, s, 429, "/v1/check?denied=status", `{"policy":"tokens","key":"user:bob","cost":1}`)
	// The sum of checks together.
	many := strings.Repeat(fmt.Sprintf(`,{"policy":"tokens","key":"user:eve","cost":%d}`, int64(1)<<53), 63)[1:]
	if status, _, body := post(s, "/v1/check?denied=status", `{"together":[`+many+`]}`); status == 200 {
		t.Errorf("together: %d %s", status, body)
	}
	must.Equal(t, "left for eve", remaining(t, s, "user:eve"), 1000)
}

// An operation with other costs is another one, also if their sum is the same.
func TestAnOperationHasTheCostOfEachLimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, costs := range []string{`{"tokens":1,"requests":9}`, `{"tokens":9,"requests":1}`, `{"requests":1,"tokens":9}`} {
		wantStatus(t, s, 200, "/v1/check?denied=status", `{"policy":"tokens","key":"user:ann","operation":"1","costs":`+costs+`}`)
	}
	must.Equal(t, "left", remaining(t, s, "user:ann"), 990)
}

// A reservation of nothing is one all the same: what it turns out to cost is charged, once.
func TestAReservationOfNothingIsSettled(t *testing.T) {
	t.Parallel()
	s := newService(t)
	a := ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"user:ann","costs":{"tokens":0}}`)
	settled := `{"reservation":"` + a.Reservation + `","costs":{"tokens":70}}`
	wantStatus(t, s, 200, "/v1/settle", settled)
	wantStatus(t, s, 409, "/v1/settle", settled)
	drain(t, s)
	must.Equal(t, "left of tokens", remaining(t, s, "user:ann"), 930)
	a = ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"user:ann","costs":{"tokens":0}}`)
	ask(t, s, "/v1/refund", `{"reservation":"`+a.Reservation+`"}`)
	drain(t, s)
	must.Equal(t, "left after a refund of nothing", remaining(t, s, "user:ann"), 930)
}
