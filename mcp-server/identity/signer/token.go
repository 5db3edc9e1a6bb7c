package signer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-server/identity/outside"
)

// pkcs11Tool is a program of OpenSC.
const pkcs11Tool = "pkcs11-tool"

// pinVariable passes the PIN in the environment, because arguments show in the list of processes.
const pinVariable = "TOKEN_PIN"

// idDigits is the length of generated key ids, in hexadecimal digits.
const idDigits = 16

// run runs pkcs11-tool on the token, logged in if login is set.
func (t *token) run(ctx context.Context, what string, input []byte, login bool, args ...string) ([]byte, error) {
	if _, err := exec.LookPath(pkcs11Tool); err != nil {
		return nil, fmt.Errorf("%w: install OpenSC (Debian: apt-get install opensc)", err)
	}
	call := outside.Call{What: what, Args: append([]string{"--module", t.module, "--token-label", t.label}, args...), Input: input}
	if login {
		pin, err := os.ReadFile(t.pinFile)
		if err != nil {
			return nil, fmt.Errorf("pin-source: %w", err)
		}
		call.Args = append(call.Args, "--login", "--pin", "env:"+pinVariable)
		call.Env = []string{pinVariable + "=" + strings.TrimSpace(string(pin))}
	}
	answer, err := outside.Of(pkcs11Tool).Run(ctx, call)
	if err != nil {
		return nil, fmt.Errorf("the token %s: %w", t.label, err)
	}
	return answer, nil
}

// generate creates an ECDSA P-256 key that cannot leave the token.
func (t *token) generate(ctx context.Context) error {
	if t.object == "" {
		return errors.New("object= is missing: the label that the key is to have")
	}
	keys, err := t.keys(ctx)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		return fmt.Errorf("the token %s has the key %s already: leave out --generate to use it", t.label, t.object)
	}
	args := []string{"--keypairgen", "--key-type", "EC:prime256v1", "--label", t.object, "--usage-sign", "--sensitive"}
	if t.id == "" {
		t.id = hex.EncodeToString([]byte(rand.Text()))[:idDigits]
	}
	_, err = t.run(ctx, "make a key", nil, true, append(args, "--id", t.id)...)
	return err
}

func (t *token) public(ctx context.Context) (crypto.PublicKey, error) {
	id, err := t.find(ctx)
	if err != nil {
		return nil, err
	}
	der, err := t.run(ctx, "read the public key", nil, false, "--read-object", "--type", "pubkey", "--id", id)
	if err != nil {
		return nil, err
	}
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("the token %s: the public key: %w", t.label, err)
	}
	return public, nil
}

// find returns the id of the key, because pkcs11-tool selects a key to sign with by id and not by
// label.
func (t *token) find(ctx context.Context) (string, error) {
	if t.id != "" {
		return t.id, nil
	}
	keys, err := t.keys(ctx)
	switch {
	case err != nil:
		return "", err
	case len(keys) == 0:
		return "", fmt.Errorf("the token %s has no private key %s: mcp-server authority create --generate makes one", t.label, t.object)
	case len(keys) > 1:
		return "", fmt.Errorf("the token %s has %d private keys %s: say which by id=%%NN", t.label, len(keys), t.object)
	}
	return keys[0], nil
}

// keys returns the ids of the private keys with the label.
func (t *token) keys(ctx context.Context) (ids []string, err error) {
	list, err := t.run(ctx, "list the keys", nil, true, "--list-objects", "--type", "privkey")
	if errors.Is(err, outside.ErrNoOutput) { // a token without keys
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	label := ""
	for line := range strings.Lines(string(list)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); {
		case strings.HasPrefix(line, "Private Key Object"):
			label = ""
		case name == "label":
			label = value
		case name == "ID" && label == t.object:
			ids = append(ids, value)
		}
	}
	return ids, nil
}

func (t *token) sign(ctx context.Context, public crypto.PublicKey, digest []byte, hash crypto.Hash) ([]byte, error) {
	id, err := t.find(ctx)
	if err != nil {
		return nil, err
	}
	how := []string{"--mechanism", "ECDSA", "--signature-format", "openssl"}
	switch public.(type) {
	case *ecdsa.PublicKey:
	case *rsa.PublicKey:
		how = []string{"--mechanism", "RSA-PKCS"}
		if digest, err = digestInfo(digest, hash); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("a key of the kind %T is not known: it has to be of ECDSA or RSA", public)
	}
	return t.run(ctx, "sign", digest, true, append([]string{"--sign", "--id", id}, how...)...)
}

// digestAlgorithms maps hashes to their identifiers in PKCS #1.
var digestAlgorithms = map[crypto.Hash]asn1.ObjectIdentifier{
	crypto.SHA256: {2, 16, 840, 1, 101, 3, 4, 2, 1}, crypto.SHA384: {2, 16, 840, 1, 101, 3, 4, 2, 2}, crypto.SHA512: {2, 16, 840, 1, 101, 3, 4, 2, 3},
}

// digestInfo returns the DigestInfo that RSA signs.
func digestInfo(digest []byte, hash crypto.Hash) ([]byte, error) {
	algorithm, known := digestAlgorithms[hash]
	if !known {
		return nil, fmt.Errorf("the hash %s is not known: it has to be of SHA-2", hash)
	}
	type identifier struct {
		Algorithm  asn1.ObjectIdentifier
		Parameters asn1.RawValue
	}
	return asn1.Marshal(struct {
		Algorithm identifier
		Digest    []byte
	}{identifier{algorithm, asn1.NullRawValue}, digest})
}
