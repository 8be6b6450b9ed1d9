package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/weblimit/weblimit/service"
)

// mountService is the JSON API.
func mountService(p *parts) (*mount, error) {
	if p.policies == nil {
		return nil, nil
	}
	secrets, err := p.options.secretsOfReservations()
	if err != nil {
		return nil, err
	}
	s, err := service.New(service.Config{
		Policies: p.policies, Store: p.store, Replicas: p.options.replicas.N, Observe: p.observe, Logger: p.logger,
		Secrets: secrets, MaxInFlight: p.options.maxInFlight.N,
	})
	if err != nil {
		return nil, err
	}
	return &mount{name: "service", http: map[string]http.Handler{"/v1/": s.Handler()}, drain: s.Drain}, nil
}

// minSecret is the least number of bytes of a secret that seals reservations.
const minSecret = 32

// secretsOfReservations returns the secrets of the environment or of the file, the one that seals first.
func (o *options) secretsOfReservations() (secrets [][]byte, err error) {
	place, parts := "WEBLIMIT_RESERVATION_SECRETS", strings.Split(string(o.reservationSecrets), ",")
	if o.reservationSecretsFile != "" {
		if o.reservationSecrets != "" {
			return nil, errors.New("WEBLIMIT_RESERVATION_SECRETS and --reservation-secrets-file exclude each other")
		}
		text, err := os.ReadFile(string(o.reservationSecretsFile))
		if err != nil {
			return nil, fmt.Errorf("--reservation-secrets-file: %w", err)
		}
		place, parts = "--reservation-secrets-file", strings.Split(string(text), "\n")
	}
	for i, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if len(part) < minSecret {
			return nil, fmt.Errorf("%s: number %d has less than %d bytes", place, i+1, minSecret)
		}
		secrets = append(secrets, []byte(part))
	}
	return secrets, nil
}
