package join

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
)

// tokenVariable is the environment variable that may hold the join token. It counts if no flag says
// what to join with; so it is not the variable of a flag.
const tokenVariable = "PGMESH_JOIN_TOKEN" //nolint:gosec // the name of one

func tokenInVariable() string { return os.Getenv(tokenVariable) } //nolint:forbidigo // see there

// Credential is what a machine joins with: a join token, or a JSON web token.
type Credential struct {
	token, tokenFile, jwtFile, roots string

	// FromInput has a token read from standard input if nothing else is given.
	FromInput bool
	// Group is the token's WorkloadGroup, once the machine has joined.
	Group string
}

// Flags declares the flags of a credential.
func (c *Credential) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.tokenFile, "token-file", "", "file with the join token that makes this machine a member, \"-\" for standard input; mcp-client token create makes one")
	flags.StringVar(&c.token, "token", "", "the join token itself; others on this machine, and the history of the shell, see it: better is a file, the variable "+tokenVariable+", or \"-\" for standard input")
	flags.StringVar(&c.jwtFile, "jwt-file", "", "file with a JSON web token, of somebody whom the mesh trusts, to join with in place of a join token")
	flags.StringVar(&c.roots, "roots", "", "PEM file with the mesh's roots, with --jwt-file: they tell whether it is the mesh that the token is shown to")
}

// Given reports whether there is a credential.
func (c *Credential) Given() bool {
	return c.token != "" || c.tokenFile != "" || c.jwtFile != "" || tokenInVariable() != ""
}

// Secrets returns the files that hold secrets, and the secrets that flags or variables hold
// themselves.
func (c *Credential) Secrets() (files, secrets []string) {
	for _, file := range []string{c.tokenFile, c.jwtFile} {
		if file != "" {
			files = append(files, file)
		}
	}
	return files, []string{c.token, tokenInVariable()}
}

// Ask returns how to get the first certificate from any of the servers.
func (c *Credential) Ask(ctx context.Context, servers []string, log *slog.Logger) (membership.Ask, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.jwtFile != "" {
		pem, err := os.ReadFile(c.roots)
		if err != nil {
			return nil, fmt.Errorf("--roots: %w", err)
		}
		roots, err := authority.ParseCertificates(pem)
		if err != nil {
			return nil, fmt.Errorf("--roots %s: %w", c.roots, err)
		}
		return ByWebToken(servers, roots, c.webToken, c.joined), nil
	}
	text, err := c.joinToken(ctx, log)
	if err != nil {
		return nil, err
	}
	token, err := jointoken.Parse(text)
	switch {
	case err != nil && c.tokenFile != "": // the variable has another meaning for mcp-client, whose token it may name
		return nil, fmt.Errorf("the file %s, which --token-file or PGMESH_TOKEN_FILE names: %w", c.tokenFile, err)
	case err != nil:
		return nil, err
	}
	return ByToken(servers, token, c.joined), nil
}

func (c *Credential) joined(group string) { c.Group = group }

func (c *Credential) check() error {
	given := 0
	for _, value := range []string{c.token, c.tokenFile, c.jwtFile} {
		if value != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("--token, --token-file and --jwt-file: give one of them")
	case given == 0 && tokenInVariable() == "" && !c.FromInput:
		return errors.New("what is this machine to join with? Give --token-file, with what mcp-client token create has printed, or --jwt-file and --roots")
	case c.jwtFile != "" && c.roots == "":
		return errors.New("--jwt-file needs --roots, a file with the mesh's roots: whoever is shown the token could use it, and has to be of the mesh")
	case c.jwtFile == "" && c.roots != "":
		return errors.New("--roots is for --jwt-file: a join token names the roots itself")
	}
	return nil
}

// joinToken returns the join token's text.
func (c *Credential) joinToken(ctx context.Context, log *slog.Logger) (string, error) {
	switch {
	case c.tokenFile == standardInput, c.token == standardInput:
		return readToken(ctx, os.Stdin, os.Stderr)
	case c.tokenFile != "":
		content, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return string(content), nil
	case c.token != "":
		log.Warn("the join token was given as an argument, which others on this machine and the history of the shell see: leave --token out, and it is asked for, or give --token-file")
		return c.token, nil
	case tokenInVariable() != "":
		return tokenInVariable(), nil
	default:
		return readToken(ctx, os.Stdin, os.Stderr)
	}
}

// webToken reads the token for each attempt, as its issuer may replace it.
func (c *Credential) webToken() (string, error) {
	content, err := os.ReadFile(c.jwtFile)
	if err != nil {
		return "", fmt.Errorf("--jwt-file: %w", err)
	}
	text := strings.TrimSpace(string(content))
	if strings.Count(text, ".") != 2 || strings.ContainsAny(text, " \t\r\n") {
		return "", fmt.Errorf("--jwt-file %s: there has to be one JSON web token in it, three parts with dots between, and nothing else", c.jwtFile)
	}
	return text, nil
}
