package webkeys

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// key has the members of a key that Envoy reads.
type key map[string]string

type members map[string]*structpb.Value

// text is a member that is a string, or "".
func (m members) text(name string) string { return m[name].GetStringValue() }

// readers read the keys of each type.
var readers = map[string]func(members, key) error{"RSA": readRSA, "EC": readEC, "OKP": readOKP, "oct": readSymmetric}

func readKey(in members) (key, error) {
	kty := in.text("kty")
	read := readers[kty]
	if read == nil {
		return nil, fmt.Errorf(`is of the type %q: write "RSA", "EC", "OKP" or "oct" as its kty`, kty)
	}
	out := key{"kty": kty}
	for _, name := range []string{"kid", "alg"} {
		if value := in.text(name); value != "" {
			out[name] = value
		}
	}
	if err := read(in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// The sizes of RSA moduli that are taken, in bits. Smaller ones are no protection, and larger ones
// Envoy does not take.
const (
	leastModulus = 1024
	mostModulus  = 16384
)

func readRSA(in members, out key) error {
	if alg := out["alg"]; alg != "" && !strings.HasPrefix(alg, "RS") && !strings.HasPrefix(alg, "PS") {
		return fmt.Errorf("is an RSA key for %q", alg)
	}
	n, err := in.number("n", out)
	if err != nil {
		return err
	}
	e, err := in.number("e", out)
	if err != nil {
		return err
	}
	switch {
	case !e.IsInt64() || e.Int64() != 3 && e.Int64() != 65537:
		return errors.New("has an exponent that is neither 3 nor 65537")
	case n.BitLen() < leastModulus || n.BitLen() > mostModulus || n.Bit(0) == 0:
		return fmt.Errorf("has a modulus of %d bits: it has to be an odd number of %d to %d", n.BitLen(), leastModulus, mostModulus)
	default:
		return nil
	}
}

// curve is one that keys for signatures may be on.
type curve struct {
	name, alg string
	size      int // of a coordinate, in bytes
	points    ecdh.Curve
}

var curves = []curve{
	{"P-256", "ES256", 32, ecdh.P256()},
	{"P-384", "ES384", 48, ecdh.P384()},
	{"P-521", "ES512", 66, ecdh.P521()},
}

func readEC(in members, out key) error {
	alg, crv := out["alg"], in.text("crv")
	if in["crv"] != nil && crv == "" {
		return errors.New("has a crv that is no name of a curve")
	}
	if alg == "" && crv == "" {
		crv = curves[0].name // Envoy takes it for that
	}
	for _, c := range curves {
		if (alg == "" || alg == c.alg) && (crv == "" || crv == c.name) {
			out["crv"] = c.name
			return c.read(in, out)
		}
	}
	return fmt.Errorf("is on the curve %q and for %q: write P-256 for ES256, P-384 for ES384, or P-521 for ES512", crv, alg)
}

func (c curve) read(in members, out key) error {
	x, err := in.number("x", out)
	if err != nil {
		return err
	}
	y, err := in.number("y", out)
	if err != nil {
		return err
	}
	const uncompressed = 4
	if max(x.BitLen(), y.BitLen()) > 8*c.size {
		return fmt.Errorf("is no point of %s", c.name)
	}
	point := make([]byte, 1+2*c.size)
	point[0] = uncompressed
	x.FillBytes(point[1 : 1+c.size])
	y.FillBytes(point[1+c.size:])
	if _, err := c.points.NewPublicKey(point); err != nil {
		return fmt.Errorf("is no point of %s", c.name)
	}
	return nil
}

func readOKP(in members, out key) error {
	if alg := out["alg"]; alg != "" && alg != "EdDSA" {
		return fmt.Errorf("is a key of Edwards curves for %q", alg)
	}
	if out["crv"] = in.text("crv"); out["crv"] != "Ed25519" {
		return fmt.Errorf("is on the curve %q, and Ed25519 alone is known", out["crv"])
	}
	x, err := in.bytes("x", out)
	if err == nil && len(x) != 32 {
		err = fmt.Errorf("has an x of %d bytes, which has 32", len(x))
	}
	return err
}

func readSymmetric(in members, out key) error {
	switch alg := out["alg"]; alg {
	case "", "HS256", "HS384", "HS512":
	default:
		return fmt.Errorf("is a symmetric key for %q", alg)
	}
	_, err := in.bytes("k", out)
	return err
}

// number reads one, and writes it as it should be written.
func (m members) number(name string, out key) (*big.Int, error) {
	value, err := m.bytes(name, out)
	return new(big.Int).SetBytes(value), err
}

func (m members) bytes(name string, out key) ([]byte, error) {
	value, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(m.text(name), "="))
	if err != nil || len(value) == 0 {
		return nil, fmt.Errorf("has no %s, or one that is not base64url", name)
	}
	out[name] = base64.RawURLEncoding.EncodeToString(value)
	return value, nil
}
