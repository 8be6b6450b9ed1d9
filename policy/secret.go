package policy

import (
	"errors"
	"io"
	"os"
	"strings"
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
		value, err = readSecret(name)
	}
	if err != nil {
		s.add(n, "%s", err)
	}
	s.secrets[n.text] = value
	return value, err == nil
}

// readSecret reads a file without the line break at its end.
func readSecret(name string) (string, error) {
	// A pipe would never end, and hold up the change of a file.
	switch info, err := os.Stat(name); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("the file " + name + " is not a regular one")
	}
	file, err := os.Open(name) //nolint:gosec // G304: whoever writes the policy names the file
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(text) > maxSecret:
		return "", errors.New("the file " + name + " is too long for a secret")
	case value == "":
		return "", errors.New("the file " + name + " is empty")
	}
	return value, nil
}
