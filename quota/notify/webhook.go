package notify

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/weblimit/weblimit/quota"
)

// WebhookConfig sets up a [Webhook].
type WebhookConfig struct {
	// URL is where notices are posted, with https or http. It is the operator's: every address is
	// allowed, those of the own network too. Required, unless Endpoint is set.
	URL string

	// Secrets sign notices for URL. Each is "whsec_" and 24 to 64 random bytes in base64. With
	// several, each signs: a receiver goes from one to the next without missing a notice. At
	// most 5. Required with URL.
	Secrets []string

	// Endpoint returns where the notices of a tenant are posted, for URLs that tenants choose.
	// They must be https, and lead to public addresses or those of AllowNetworks: this is
	// checked for each connection, after the name was resolved. An Endpoint without a URL is that of a
	// tenant who wants none. Errors are tried again.
	Endpoint func(ctx context.Context, n quota.Notice) (Endpoint, error)

	// AllowNetworks are networks that are not public and which URLs of Endpoint may lead to.
	// Defaults to none.
	AllowNetworks []netip.Prefix

	// Source and Type are those of the events. Source must differ for books that have the same
	// limits and the same receiver. Default to "weblimit" and "weblimit.quota.notice".
	Source, Type string

	// RootCAs verify the receiver's certificate. Defaults to those of the system.
	RootCAs *x509.CertPool
}

// Endpoint is where the notices of a tenant are posted.
type Endpoint struct {
	URL     string   // https
	Secrets []string // as WebhookConfig.Secrets. Tenants must not share one.
}

// Webhook posts notices, signed as Standard Webhooks says. It is safe for concurrent use.
type Webhook struct {
	config  WebhookConfig
	client  *http.Client
	to      *url.URL
	secrets [][]byte
}

// NewWebhook returns a webhook, whose Deliver is for quota.Channel.
func NewWebhook(config WebhookConfig) (*Webhook, error) {
	if config.Source == "" {
		config.Source = defaultSource
	}
	if config.Type == "" {
		config.Type = defaultNoticeType
	}
	if err := errors.Join(checkAttributes(config.Source, config.Type), checkNetworks(config.AllowNetworks)); err != nil {
		return nil, err
	}
	w := &Webhook{config: config}
	switch {
	case config.URL != "" && config.Endpoint != nil:
		return nil, errors.New("weblimit: notify: WebhookConfig has URL and Endpoint, make two webhooks")
	case config.Endpoint != nil && len(config.Secrets) > 0:
		return nil, errors.New("weblimit: notify: WebhookConfig has Secrets, which Endpoint must return instead")
	case config.Endpoint != nil:
		w.client = newClient(config.RootCAs, guard(config.AllowNetworks))
		return w, nil
	case len(config.AllowNetworks) > 0:
		return nil, errors.New("weblimit: notify: WebhookConfig.AllowNetworks is for Endpoint: URL may lead everywhere")
	}
	var err error
	if w.to, err = parseURL(config.URL, "https", "http"); err != nil {
		return nil, fmt.Errorf("weblimit: notify: WebhookConfig.URL: %w", err)
	}
	if w.secrets, err = parseSecrets(config.Secrets); err != nil {
		return nil, err
	}
	w.client = newClient(config.RootCAs, nil)
	return w, nil
}

// Deliver posts a notice once. The receiver has it if it answers 2xx. 410 says that it wants it no
// more; after other answers, and without one, it is to be tried again, after Retry-After if
// the answer has that.
func (w *Webhook) Deliver(ctx context.Context, n quota.Notice) error {
	to, secrets := w.to, w.secrets
	if w.config.Endpoint != nil {
		endpoint, err := w.config.Endpoint(ctx, n)
		if err != nil {
			return fmt.Errorf("finding the endpoint: %w", err)
		}
		if endpoint.URL == "" {
			return nil
		}
		if to, err = parseURL(endpoint.URL, "https"); err != nil {
			return err
		}
		if secrets, err = parseSecrets(endpoint.Secrets); err != nil {
			return err
		}
	}
	body, err := json.Marshal(noticeEvent(&n, w.config.Source, w.config.Type))
	if err != nil {
		return permanent(err)
	}
	status, err := post(ctx, w.client, to, "application/cloudevents+json", body, func(h http.Header) {
		sign(h, n.ID, time.Now(), body, secrets)
	})
	if status == http.StatusGone {
		return permanent(err)
	}
	return err
}
