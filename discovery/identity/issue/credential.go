package issue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/discovery/identity/admit"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/rpc"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// bearer is who a certificate is for.
type bearer struct {
	identity.Workload

	enrolment string
	group     string // the WorkloadGroup that it joins; "" for none, or if it has joined before
	alias     string // what metrics are to call it, or ""
}

// credential is what a caller shows, judged by what the mesh trusts at that moment. Redeem returns
// whom it stands for. It needs the hash of the key to be certified.
type credential struct {
	state  *trust.State
	redeem func(ctx context.Context, keyHash [sha256.Size]byte) (bearer, error)
}

// What a certificate was given for, in the words of records.
const (
	byToken       = "token"
	byCertificate = "certificate"
	byWebToken    = "jwt"
)

// present finds out what a caller shows. A token counts before a certificate, since it may be for
// somebody else. A caller without a valid certificate is held to the limit of strangers before
// anything that costs more.
func (s *Service) present(ctx context.Context, record *identityv1.Issue) (*credential, error) {
	state := s.cfg.Trust()
	chain := admit.Presented(ctx)
	m, err := member(ctx, state)
	if err != nil {
		if tooMany := s.cfg.Strangers.Take(ctx); tooMany != nil {
			return nil, tooMany
		}
	}
	if state == nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "discovery does not know yet what the mesh trusts, and waits for mcp-server: try again later, or at another discovery")
	}
	header := authorization(ctx)
	switch {
	case header != "":
		return s.bearing(state, header, record)
	case len(chain) == 0:
		return nil, refusal.New(identityv1.Refusal_REFUSAL_NO_CREDENTIAL, "neither a token nor a certificate was shown: "+
			"join with a token (mesh-agent join --token-file FILE; mcp-client token create makes one)")
	case err != nil:
		record.By = byCertificate
		note(record, err)
		return nil, refusalOf(err)
	}
	if tooOften := s.cfg.Renewals.Take(cmp.Or(m.Enrolment, m.ID.String())); tooOften != nil {
		return nil, tooOften
	}
	record.By = byCertificate
	return &credential{state, func(context.Context, [sha256.Size]byte) (bearer, error) {
		w := m.Workload
		w.TrustDomain = state.Domain // the mesh may have another name by now
		return bearer{Workload: w, enrolment: m.Enrolment}, nil
	}}, nil
}

// member is who shows a valid certificate.
func member(ctx context.Context, state *trust.State) (*trust.Member, error) {
	if state == nil {
		return nil, errors.New("nobody knows yet what counts")
	}
	return admit.Machine(ctx, state)
}

// note records what is known of a refused caller.
func note(record *identityv1.Issue, err error) {
	if why, ok := errors.AsType[*trust.RefusedError](err); ok {
		record.Identity, record.Enrolment = why.ID, why.Enrolment
	}
}

// authorization is the header of that name. Several of them are like an unknown one.
func authorization(ctx context.Context) string {
	m, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(m.Get("authorization"), ", ")
}

// bearing reads the token in the header authorization.
func (s *Service) bearing(state *trust.State, header string, record *identityv1.Issue) (*credential, error) {
	scheme, text, _ := strings.Cut(header, " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(scheme, "bearer") || text == "" {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_NO_CREDENTIAL, "the header authorization has to be once in the call and of the form: Bearer TOKEN")
	}
	if strings.Count(text, ".") == 2 && !strings.HasPrefix(text, jointoken.Prefix) {
		record.By = byWebToken
		return &credential{state, func(context.Context, [sha256.Size]byte) (bearer, error) {
			return s.tokens.judge(state, text, time.Now())
		}}, nil
	}
	record.By = byToken
	token, err := jointoken.Parse(text)
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "%v", err)
	}
	return &credential{state, func(ctx context.Context, keyHash [sha256.Size]byte) (bearer, error) {
		return s.redeem(ctx, state, token, keyHash, record.GetPeer())
	}}, nil
}

// redeemWithin bounds how long mcp-server may take to redeem a token.
const redeemWithin = 10 * time.Second

// redeem asks mcp-server to redeem a join token.
func (s *Service) redeem(ctx context.Context, state *trust.State, token jointoken.Token, keyHash [sha256.Size]byte, peer string) (bearer, error) {
	if s.cfg.Server == nil {
		return bearer{}, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "this discovery follows no mcp-server, which alone knows join tokens: join at another discovery, or with a JSON web token")
	}
	ctx, cancel := context.WithTimeout(ctx, redeemWithin)
	defer cancel()
	hash := token.Hash()
	// A used token is accepted again for the same key, so the call may be repeated.
	answer, err := rpc.Again(func() (*identityv1.RedeemResponse, error) {
		return s.cfg.Server.Redeem(ctx, &identityv1.RedeemRequest{TokenHash: hash[:], KeyHash: keyHash[:], Peer: peer})
	})
	if err != nil {
		namespace, account := refusal.Whom(err)
		return bearer{Workload: identity.Workload{TrustDomain: state.Domain, Namespace: namespace, ServiceAccount: account}}, refusalBy(err)
	}
	g := answer.GetGrant()
	return bearer{
		Workload:  identity.Workload{TrustDomain: state.Domain, Namespace: g.GetNamespace(), ServiceAccount: g.GetServiceAccount()},
		enrolment: g.GetEnrolment(), group: g.GetWorkloadGroup(),
	}, nil
}
