package monitor

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/localhost"
)

// Access says who may see the pages. On loopback everyone on this machine may. From elsewhere,
// everyone may see the health pages and the metrics; the other pages need the token.
type Access struct{ TokenFile string }

// Check reports a token file that cannot be read or whose token is too short.
func (a Access) Check() error {
	if a.TokenFile == "" {
		return nil
	}
	_, err := a.token()
	return err
}

// shortestToken is the length from which on a random token cannot be guessed.
const shortestToken = 16

func (a Access) token() (string, error) {
	text, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--http-token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < shortestToken {
		return "", fmt.Errorf("--http-token-file %s: a token has %d characters at least: openssl rand -hex 32 makes one", a.TokenFile, shortestToken)
	}
	return token, nil
}

// open lists the pages that need no token.
var open = []string{"/healthz", "/readyz", "/metrics"}

// guard refuses requests that Access does not allow. It reads the token file for each request, so a
// new token counts at once.
func (a Access) guard(next http.Handler) http.Handler {
	fromElsewhere := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localhost.Reached(r) && !slices.Contains(open, r.URL.Path) {
			if err := a.admit(r); err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	return localhost.Handler(fromElsewhere, "/healthz", "/readyz")
}

var (
	errNoToken    = errors.New("this page is for the machine that the program runs on: ask there, at 127.0.0.1, or start the program with --http-token-file")
	errWrongToken = errors.New("this page is for whoever shows the token of --http-token-file: send it as Authorization: Bearer TOKEN")
)

func (a Access) admit(r *http.Request) error {
	if a.TokenFile == "" {
		return errNoToken
	}
	token, err := a.token()
	if err != nil {
		return errors.New("the token that lets in to this page cannot be read: the program's log says why")
	}
	shown, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || subtle.ConstantTimeCompare([]byte(shown), []byte(token)) != 1 {
		return errWrongToken
	}
	return nil
}
