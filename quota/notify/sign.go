package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook are signed as Standard Webhooks 1.0 says:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"

	secretPrefix = "whsec_"
	minSecret    = 24 // bytes
	maxSecret    = 64
	maxSecrets   = 5
)

// parseSecrets returns the bytes of secrets. Its errors don't have the secrets in them.
func parseSecrets(secrets []string) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, errors.New("weblimit: notify: a webhook has no secret, and its receiver could not tell who has sent it")
	}
	if len(secrets) > maxSecrets {
		return nil, fmt.Errorf("weblimit: notify: a webhook has %d secrets, the most is %d", len(secrets), maxSecrets)
	}
	all := make([][]byte, len(secrets))
	for i, s := range secrets {
		text, ok := strings.CutPrefix(s, secretPrefix)
		secret, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(secret) < minSecret || len(secret) > maxSecret {
			return nil, fmt.Errorf("weblimit: notify: secret %d of a webhook is not %s and %d to %d bytes in base64", i+1, secretPrefix, minSecret, maxSecret)
		}
		all[i] = secret
	}
	return all, nil
}

// sign sets the headers of a message, with a signature for each secret.
func sign(h http.Header, id string, now time.Time, body []byte, secrets [][]byte) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(id + "." + timestamp + "."))
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set(headerID, id)
	h.Set(headerTimestamp, timestamp)
	h.Set(headerSignature, strings.Join(signatures, " "))
}
