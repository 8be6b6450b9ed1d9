package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/service"
)

// serviceOptions are the settings of the JSON API.
type serviceOptions struct {
	reservationSecrets     settings.String
	reservationSecretsFile settings.String
}

func (o *serviceOptions) add(g settings.Group) {
	for _, setting := range []*settings.Setting{
		g.Secret("reservation-secrets", &o.reservationSecrets, "secrets that seal reservations, of 32 bytes or more with commas between them; all instances need the same"),
		g.Add("reservation-secrets-file", &o.reservationSecretsFile, "", "file of these, one per line"),
	} {
		setting.Needs("policy").Needs("listen")
	}
}

// mountService is the JSON API.
func mountService(p *parts) (*mount, error) {
	if p.policies == nil {
		return nil, nil
	}
	o := p.options
	if o.reservationSecrets != "" && o.reservationSecretsFile != "" {
		return nil, errors.New("WEBLIMIT_RESERVATION_SECRETS and --reservation-secrets-file exclude each other")
	}
	secrets, err := secure.NewSecrets(string(o.reservationSecrets), string(o.reservationSecretsFile), minSecret)
	switch {
	case err != nil && o.reservationSecretsFile != "":
		return nil, fmt.Errorf("--reservation-secrets-file: %w", err)
	case err != nil:
		return nil, fmt.Errorf("WEBLIMIT_RESERVATION_SECRETS: %w", err)
	}
	s, err := service.New(service.Config{
		Policies: p.policies, Store: p.store, Replicas: o.replicas.N, Observe: p.observe, Logger: p.logger,
		Secrets: secrets.Live(), MaxInFlight: o.maxInFlight.N,
	})
	if err != nil {
		return nil, err
	}
	m := &mount{name: "service", http: map[string]http.Handler{"/v1/": s.Handler()}, drain: s.Drain}
	if o.reservationSecretsFile != "" {
		m.secrets = func() (changed bool, err error) {
			if changed, err = secrets.Reload(); changed {
				err = s.SetSecrets(secrets.Live()...)
			}
			return changed, err
		}
	}
	return m, nil
}

// minSecret is the least number of bytes of a secret that seals reservations.
const minSecret = 32
