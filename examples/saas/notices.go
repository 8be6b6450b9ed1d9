package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/quota/notify"
)

const (
	maxNotices   = 50
	secretPrefix = "whsec_"
)

// notices is the receiver of the webhook, which a real service has elsewhere: in what writes mails, or
// in the CRM. The book sends each notice until the receiver has it.
type notices struct {
	secret string // both ends know it; a real service keeps it with its other secrets

	mu      sync.Mutex
	arrived []notice // the newest first. Guarded by mu.
}

// notice is a CloudEvent of package notify, as far as the page shows it.
type notice struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Data struct {
		Tenant   string `json:"tenant"`
		Level    int    `json:"level"` // percent of Included
		Used     int64  `json:"used"`
		Included int64  `json:"included"`
	} `json:"data"`
}

func newNotices() *notices {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return &notices{secret: secretPrefix + base64.StdEncoding.EncodeToString(key)}
}

// channel returns the book's channel to the receiver at a URL.
func (n *notices) channel(url string) (quota.Channel, error) {
	hook, err := notify.NewWebhook(notify.WebhookConfig{URL: url, Secrets: []string{n.secret}})
	if err != nil {
		return quota.Channel{}, err
	}
	return quota.Channel{Name: "webhook", Deliver: hook.Deliver}, nil
}

// receive accepts a notice that is signed, and keeps the first of each ID.
func (n *notices) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, "too long", http.StatusRequestEntityTooLarge)
		return
	}
	if err := n.verify(r.Header, body); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var got notice
	if err := json.Unmarshal(body, &got); err != nil {
		http.Error(w, "this is no notice", http.StatusBadRequest)
		return
	}
	n.keep(got)
	w.WriteHeader(http.StatusNoContent)
}

// verify checks the signature of a webhook, as Standard Webhooks says.
func (n *notices) verify(h http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(n.secret, secretPrefix))
	if err != nil {
		return err
	}
	sent, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return errors.New("the timestamp is missing, or too far from now")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature is right")
}

func (n *notices) keep(got notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(n.arrived, func(known notice) bool { return known.ID == got.ID }) {
		return // a repeat
	}
	n.arrived = slices.Insert(n.arrived, 0, got)
	n.arrived = n.arrived[:min(len(n.arrived), maxNotices)]
}

// list returns the notices that have arrived, the newest first.
func (n *notices) list() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.arrived)
}
