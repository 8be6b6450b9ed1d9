package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// used returns how much of the quota of 1000 of the limit "tokens" a user has used.
func used(t *testing.T, s *Service, user string) int64 {
	t.Helper()
	_, _, body := post(s, "/v1/peek", fmt.Sprintf(`{"policy":"tokens","key":"user:%s","cost":0}`, user))
	var a struct {
		Limits []struct {
			Name      string
			Remaining int64
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Limits) != 2 {
		t.Fatalf("%s %v", body, err)
	}
	return 1000 - a.Limits[1].Remaining
}

func reservationOf(t *testing.T, s *Service, body string) string {
	t.Helper()
	status, _, got := post(s, "/v1/reserve", body)
	var a struct{ Reservation string }
	if err := json.Unmarshal([]byte(got), &a); err != nil || status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	return a.Reservation
}

// drain waits until the store knows of what was charged.
func drain(t *testing.T, s *Service) {
	t.Helper()
	if err := s.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// An operation is that of one client: another may choose the same ID.
func TestChargesOfOneOperationForTwoClients(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, user := range []string{"ann", "bob"} {
		status, _, body := post(s, "/v1/charge", fmt.Sprintf(`{"policy":"tokens","key":"user:%s","costs":{"tokens":100},"operation":"1"}`, user))
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", user, status, body)
		}
	}
	drain(t, s)
	if a, b := used(t, s, "ann"), used(t, s, "bob"); a != 100 || b != 100 {
		t.Errorf("ann has used %d, bob %d, want 100 each", a, b)
	}
}

// Huge costs wrap round nowhere.
func TestHugeChargesNeverGiveQuota(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for range 40 {
		status, _, body := post(s, "/v1/charge", fmt.Sprintf(`{"policy":"tokens","key":"user:ann","costs":{"tokens":%d,"requests":%d}}`, int64(1)<<53, int64(1)<<53))
		if status != 200 {
			t.Fatal(status, body)
		}
		drain(t, s)
		if status, _, body := post(s, "/v1/check?denied=status", `{"policy":"tokens","key":"user:ann","cost":1}`); status != 429 {
			t.Fatalf("%d %s", status, body)
		}
	}
	token := reservationOf(t, s, `{"policy":"tokens","key":"user:bob","costs":{"tokens":1}}`)
	if status, _, body := post(s, "/v1/settle", fmt.Sprintf(`{"reservation":%q,"costs":{"tokens":%d}}`, token, int64(1)<<53)); status != 200 {
		t.Fatal(status, body)
	}
	drain(t, s)
	if status, _, body := post(s, "/v1/check?denied=status", `{"policy":"tokens","key":"user:bob","cost":1}`); status != 429 {
		t.Fatalf("%d %s", status, body)
	}
	// The sum of checks together.
	many := strings.Repeat(fmt.Sprintf(`,{"policy":"tokens","key":"user:eve","cost":%d}`, int64(1)<<53), 63)[1:]
	if status, _, body := post(s, "/v1/check?denied=status", `{"together":[`+many+`]}`); status == 200 {
		t.Errorf("together: %d %s", status, body)
	}
	if n := used(t, s, "eve"); n != 0 {
		t.Errorf("eve has used %d", n)
	}
}

// An operation with other costs is another one, also if their sum is the same.
func TestAnOperationHasTheCostOfEachLimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, costs := range []string{`{"tokens":1,"requests":9}`, `{"tokens":9,"requests":1}`, `{"requests":1,"tokens":9}`} {
		if status, _, body := post(s, "/v1/check?denied=status", `{"policy":"tokens","key":"user:ann","operation":"1","costs":`+costs+`}`); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if n := used(t, s, "ann"); n != 10 {
		t.Errorf("used %d, want 10", n)
	}
}
