package authority

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// State is what is known of the authority and of the mesh's trust at one moment.
type State struct {
	trust   *identityv1.Trust  // as servers are sent it
	signer  *signing.Authority // nil while there is none
	roots   []*x509.Certificate
	signers []*x509.Certificate // the certificates of the authorities that sign for servers; nil for a relay, which does not know them
	revoked map[string]*identityv1.Revocation

	readAt   time.Time         // when it was read, by the database's clock
	rows     []trust.Authority // with their sealed keys, to be saved
	replaced chan struct{}     // closed when the next state replaces this one
}

// equal reports whether two states are the same but for when they were read.
func (s *State) equal(other *State) bool {
	return proto.Equal(s.trust, other.trust) && slices.EqualFunc(s.signers, other.signers, (*x509.Certificate).Equal) &&
		(s.signer == nil) == (other.signer == nil) && (s.signer == nil || s.signer.Certificate().Equal(other.signer.Certificate()))
}

// place binds the sealed key of an authority to its certificate. No secret's namespace has a colon.
func place(fingerprint string) seal.Place {
	return seal.Place{Namespace: ":authority", Name: fingerprint, Value: "key"}
}

// fingerprintOf returns the SHA-256 by which the database knows an authority.
func fingerprintOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// read builds a state from the database.
func (a *Authority) read(ctx context.Context) (*State, error) {
	found, err := a.cfg.Trust.Trust(ctx)
	if err != nil {
		return nil, err
	}
	var rows []trust.Authority
	if a.files == nil {
		if rows, err = a.cfg.Trust.AuthoritiesWithKeys(ctx); err != nil {
			return nil, err
		}
	}
	s, err := a.stateOf(trustOf(found), rows)
	if err == nil {
		s.readAt = found.ReadAt
	}
	return s, err
}

// stateOf builds a state from the trust and the authorities.
func (a *Authority) stateOf(found *identityv1.Trust, rows []trust.Authority) (*State, error) {
	s := &State{trust: found, revoked: revokedIn(found), rows: rows, replaced: make(chan struct{})}
	var err error
	if a.files != nil {
		s.takeFiles(a.files.value.Get())
	} else {
		err = s.takeRows(rows, a.cfg.Keys, a.cfg.Signs)
	}
	if err != nil {
		return nil, err
	}
	found.Roots = signing.EncodeCertificates(s.roots...)
	if s.signer != nil {
		pin := sha256.Sum256(s.signer.Root().RawSubjectPublicKeyInfo)
		found.ActiveRoot = pin[:]
	}
	return s, nil
}

// revokedIn indexes the revocations by identity or enrolment. The two cannot clash: an enrolment
// has no slash.
func revokedIn(trust *identityv1.Trust) map[string]*identityv1.Revocation {
	revoked := map[string]*identityv1.Revocation{}
	for _, r := range trust.GetRevoked() {
		revoked[r.GetIdentity()+r.GetEnrolment()] = r
	}
	return revoked
}

func (s *State) takeFiles(f fromFiles) {
	s.signer, s.roots = f.signer, f.roots
	if f.signer != nil {
		s.signers = []*x509.Certificate{f.signer.Certificate()}
	}
}

// takeRows takes the trusted authorities of the database, and the key of the active one.
func (s *State) takeRows(rows []trust.Authority, keys *seal.Keys, signs bool) error {
	for _, row := range rows {
		if row.State == trust.RetiredAuthority {
			continue
		}
		chain, err := signing.ParseCertificates(row.Chain)
		if err != nil {
			return fmt.Errorf("authority %d: %w", row.ID, err)
		}
		if row.State != trust.ActiveAuthority {
			s.roots = append(s.roots, chain[0])
			s.signers = append(s.signers, chain[0])
			continue
		}
		s.roots = slices.Insert(s.roots, 0, chain[0])
		s.signers = slices.Insert(s.signers, 0, chain[0])
		if !signs {
			continue
		}
		key, err := keys.Open(place(row.Fingerprint), row.SealedKey)
		if err != nil {
			return fmt.Errorf("the key of authority %d: %w", row.ID, err)
		}
		if s.signer, err = signing.Load(row.Chain, key, nil); err != nil {
			return fmt.Errorf("authority %d: %w", row.ID, err)
		}
	}
	return nil
}

// trustOf converts the database's trust into the message, without the roots.
func trustOf(t trust.Trust) *identityv1.Trust {
	message := &identityv1.Trust{TrustDomain: t.TrustDomain, Aliases: t.Aliases, CertificateLifetimes: t.Lifetimes, OwnGateways: t.OwnGateways}
	for _, f := range t.Federated {
		message.Federated = append(message.Federated, &identityv1.Federated{TrustDomain: f.TrustDomain, Roots: f.Roots})
	}
	for _, r := range t.Revoked {
		message.Revoked = append(message.Revoked, &identityv1.Revocation{Identity: r.Identity, Enrolment: r.Enrolment, Reason: r.Reason, At: timestamppb.New(r.At)})
	}
	for _, i := range t.Issuers {
		message.Issuers = append(message.Issuers, &identityv1.Issuer{
			Name: i.Name, Issuer: i.Issuer, Audiences: i.Audiences, Jwks: i.JWKS, JwksUri: i.JWKSURI, Claims: i.Claims,
			Namespace: i.Namespace, ServiceAccount: i.ServiceAccount, WorkloadGroup: i.WorkloadGroup,
		})
	}
	return message
}

// makeFirst creates the authority of a mesh that has none. If several servers try at once, one wins
// and the others read its authority.
func (a *Authority) makeFirst(ctx context.Context, trustDomain string) error {
	if a.files != nil {
		return ErrNone
	}
	root, sealed, err := a.newRoot(trustDomain)
	if err != nil {
		return err
	}
	won, err := a.cfg.Trust.FirstAuthority(ctx, root.ChainPEM(), sealed, "")
	if won {
		a.cfg.Log.Info("made the authority of the mesh", "trust_domain", trustDomain, "fingerprint", fingerprintOf(root.Certificate()),
			"until", root.NotAfter().UTC().Format(time.RFC3339))
	}
	return err
}

// newRoot creates a root and seals its key.
func (a *Authority) newRoot(trustDomain string) (root *signing.Authority, sealed string, err error) {
	if !a.cfg.Keys.Can() {
		return nil, "", seal.ErrNone
	}
	if root, err = signing.NewRoot(trustDomain, signing.RootLifetime); err != nil {
		return nil, "", err
	}
	key, err := root.KeyPEM()
	if err != nil {
		return nil, "", err
	}
	return root, a.cfg.Keys.Seal(place(fingerprintOf(root.Certificate())), bytes.TrimSpace(key)), nil
}

// Roots returns the mesh's own roots, the active one first; none before the first state.
func (a *Authority) Roots() []*x509.Certificate {
	if s := a.Current(); s != nil {
		return s.roots
	}
	return nil
}

// Rotate creates the authority that is to sign next, in the name of by, and returns its id. It is
// trusted at once, and signs once it is activated.
func (a *Authority) Rotate(ctx context.Context, by string) (int64, error) {
	s := a.Current()
	switch {
	case a.files != nil:
		return 0, &store.InvalidError{Reason: "the authority of this server is in files", Advice: "replace --authority-cert and --authority-key; before that, add the new root to --authority-roots"}
	case s == nil || s.signer == nil:
		return 0, status.Error(codes.FailedPrecondition, ErrNone.Error())
	}
	root, sealed, err := a.newRoot(s.trust.GetTrustDomain())
	if err != nil {
		return 0, err
	}
	id, err := a.cfg.Trust.AddAuthority(ctx, root.ChainPEM(), sealed, by)
	if err == nil {
		a.cfg.Log.Info("made the authority that is to sign next", "authority", id, "fingerprint", fingerprintOf(root.Certificate()), "by", by)
		a.Read(ctx)
	}
	return id, err
}
