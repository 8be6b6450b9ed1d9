package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
)

// notice says that a tenant has reached a level of its plan.
type notice struct {
	ID      string    `json:"id"`
	Limit   string    `json:"limit"`
	Tenant  string    `json:"tenant"`
	Percent int       `json:"percent"`
	Used    int64     `json:"used"`
	Units   int64     `json:"units"`
	Time    time.Time `json:"time"`
}

const (
	maxNotices    = 50
	signatureName = "X-Signature-SHA256"
)

// notices sends notices to a webhook, and is the webhook's receiver, which a real service has
// elsewhere: in what writes mails, or in the CRM.
type notices struct {
	url    string
	secret []byte // signs what is sent
	queue  chan notice
	ended  chan struct{}

	mu      sync.Mutex
	arrived []notice // the newest first. Guarded by mu.
}

func newNotices(url string) *notices {
	return &notices{url: url, secret: []byte(rand.Text()), queue: make(chan notice, 1000), ended: make(chan struct{})}
}

// warn is called by the request that reaches a level, so it must not wait.
func (n *notices) warn(_ context.Context, w core.Warning) {
	percent := int(w.Level*100 + 0.5)
	at := time.Now().UTC()
	select {
	case n.queue <- notice{
		ID: fmt.Sprintf("%s/%s/%s/%d", w.Limit, w.Key, at.Format("2006-01"), percent), Limit: w.Limit, Tenant: w.Key,
		Percent: percent, Used: w.Used, Units: w.Burst, Time: at,
	}:
	default:
		log.Printf("notice of %s at %d %% is dropped: the queue is full", w.Key, percent)
	}
}

// deliver sends notices until close.
func (n *notices) deliver() {
	defer close(n.ended)
	for next := range n.queue {
		if err := n.send(next); err != nil {
			log.Printf("notice %s: %v", next.ID, err)
		}
	}
}

func (n *notices) close() {
	close(n.queue)
	<-n.ended
}

func (n *notices) send(what notice) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(signatureName, n.sign(body))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the receiver answered %s", response.Status)
	}
	return nil
}

func (n *notices) sign(body []byte) string {
	mac := hmac.New(sha256.New, n.secret)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// receive accepts a notice that is signed, and keeps the first of each ID.
func (n *notices) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, "too long", http.StatusRequestEntityTooLarge)
		return
	}
	if !hmac.Equal([]byte(r.Header.Get(signatureName)), []byte(n.sign(body))) {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
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
