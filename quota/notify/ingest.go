package notify

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/weblimit/weblimit/quota"
)

// IngestConfig sets up an [Ingest].
type IngestConfig struct {
	// URL is where usage is posted, with https or http, such as
	// "https://openmeter.example.com/api/v1/events". It is the operator's: every address is allowed. Required.
	URL string

	// Token is sent as a bearer token. Defaults to none.
	Token string

	// Source and Type are those of the events. Receivers drop an event if they know its Source
	// and ID. Default to "weblimit" and "weblimit.quota.usage".
	Source, Type string

	// Subject returns the subject of an increment, such as the customer's id in the billing engine. It
	// must return the same for the same increment. Defaults to the tenant's key.
	Subject func(i quota.Increment) string

	// RootCAs verify the receiver's certificate. Defaults to those of the system.
	RootCAs *x509.CertPool
}

// Ingest posts usage to a billing engine as batches of CloudEvents. It is safe for concurrent use.
type Ingest struct {
	config IngestConfig
	client *http.Client
	to     *url.URL
}

// NewIngest returns an ingest, whose Send is for quota.Export.
func NewIngest(config IngestConfig) (*Ingest, error) {
	if config.Source == "" {
		config.Source = defaultSource
	}
	if config.Type == "" {
		config.Type = defaultUsageType
	}
	if config.Subject == nil {
		config.Subject = func(i quota.Increment) string { return i.Tenant }
	}
	if err := checkAttributes(config.Source, config.Type); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(config.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("weblimit: notify: IngestConfig.Token has characters that no header can have")
	}
	to, err := parseURL(config.URL, "https", "http")
	if err != nil {
		return nil, fmt.Errorf("weblimit: notify: IngestConfig.URL: %w", err)
	}
	return &Ingest{config: config, client: newClient(config.RootCAs, nil), to: to}, nil
}

// Send posts a batch once. The receiver has all of it if it answers 2xx. 400, 413 and 422 say that
// there are events in it which it will never accept.
func (i *Ingest) Send(ctx context.Context, batch []quota.Increment) error {
	events := make([]event, len(batch))
	for n := range batch {
		events[n] = usageEvent(&batch[n], i.config.Source, i.config.Type, i.config.Subject(batch[n]))
	}
	body, err := json.Marshal(events)
	if err != nil {
		return permanent(err)
	}
	status, err := post(ctx, i.client, i.to, "application/cloudevents-batch+json", body, func(h http.Header) {
		if i.config.Token != "" {
			h.Set("Authorization", "Bearer "+i.config.Token)
		}
	})
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return permanent(err)
	}
	return err
}
