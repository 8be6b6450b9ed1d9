package notify_test

// The code of docs/bill/notices.md.

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/quota/notify"
)

var _ = []any{docsOpen, docsTenants, docsDead}

func docsOpen(ctx context.Context, pool *pgxpool.Pool, store core.Store, current, next, token string) *quota.Book {
	hook, err := notify.NewWebhook(notify.WebhookConfig{
		URL:     "https://billing.internal.example/notices",
		Secrets: []string{current, next},
	})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := notify.NewIngest(notify.IngestConfig{
		URL:   "https://openmeter.internal.example/api/v1/events",
		Token: token,
	})
	if err != nil {
		log.Fatal(err)
	}
	book, err := quota.Open(ctx, pool, quota.Config{
		Store:  store,
		Levels: []int{50, 80, 90, 100},
		Notices: []quota.Channel{
			{Name: "billing", Deliver: hook.Deliver},
			{Name: "mail", Deliver: sendMail},
		},
		Exports: []quota.Export{{Name: "openmeter", Send: engine.Send}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return book
}

// sendMail may be called twice for one notice: the provider drops a key that it knows.
func sendMail(ctx context.Context, n quota.Notice) error {
	return mail(ctx, n.ID, n.Tenant, strconv.Itoa(n.Level)+" % of your plan are used")
}

func mail(context.Context, string, string, string) error { return nil }

func docsTenants(endpointOf func(ctx context.Context, tenant string) (url, secret string, err error)) {
	hooks, err := notify.NewWebhook(notify.WebhookConfig{
		Endpoint: func(ctx context.Context, n quota.Notice) (notify.Endpoint, error) {
			url, secret, err := endpointOf(ctx, n.Tenant)
			return notify.Endpoint{URL: url, Secrets: []string{secret}}, err
		},
	})
	_, _ = hooks, err
}

func docsDead(ctx context.Context, book *quota.Book) error {
	err := book.Deliveries(ctx, quota.DeliveryQuery{Channel: "billing", State: quota.Dead}, func(d quota.Delivery) error {
		log.Print(d.Notice.Tenant, " ", d.Notice.Level, " ", d.Err)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = book.Redeliver(ctx, "billing") // all dead ones
	return err
}

// verify returns the body of a webhook, if it was signed with the secret a short time ago.
func verify(r *http.Request, secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, err
	}
	sent, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return nil, errors.New("the timestamp is missing, or too far from now")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(r.Header.Get("webhook-signature")) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return body, nil
		}
	}
	return nil, errors.New("no signature is right")
}
