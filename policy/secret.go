package policy

import (
	"context"
	"errors"
	"strings"

	"github.com/weblimit/weblimit/internal/wholefile"
)

// maxSecret bounds the file of a secret.
const maxSecret = 4096

// secretOf reads the secret that a node refers to. It returns false after a problem, and where secrets
// are left unread. No problem shows a secret.
func (s *scope) secretOf(n *node) (string, bool) {
	if s.options.WithoutSecrets {
		return "", false
	}
	if known, ok := s.secrets[n.text]; ok {
		return known, known != ""
	}
	kind, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(n.text, "${"), "}"), ":")
	var value string
	var err error
	if kind == "env" {
		var ok bool
		if value, ok = s.options.env(name); !ok || value == "" {
			err = errors.New("the environment variable " + name + " is not set")
		}
	} else {
		value, err = readSecret(s.ctx, name)
	}
	if err != nil {
		s.add(n, "%s", err)
	}
	s.secrets[n.text] = value // "" after a problem, which is told once
	return value, err == nil
}

// readSecret reads a file without the line break at its end.
func readSecret(ctx context.Context, name string) (string, error) {
	text, err := wholefile.Read(ctx, name, maxSecret)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", errors.New("the file " + name + " is empty")
	}
	return value, nil
}
