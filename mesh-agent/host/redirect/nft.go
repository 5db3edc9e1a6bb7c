package redirect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// nft manages rules with nft (nf_tables).
type nft struct{}

func (nft) String() string { return ByNFT }

func (nft) Check(ctx context.Context, p Plan) error {
	if _, err := call(ctx, p.NFT(), ByNFT, "--check", "--file", "-"); err != nil {
		return err
	}
	return p.checkRoutes()
}

func (nft) Apply(ctx context.Context, p Plan) error {
	if err := p.addRoutes(ctx); err != nil {
		return err
	}
	_, err := call(ctx, p.NFT(), ByNFT, "--file", "-")
	return err
}

func (nft) Confirm(ctx context.Context, p Plan) error {
	_, err := call(ctx, p.nftConfirm(), ByNFT, "--file", "-")
	return err
}

func (nft) Release(ctx context.Context, p Plan) error {
	_, err := call(ctx, p.nftRelease(), ByNFT, "--file", "-")
	return err
}

func (n nft) Remove(ctx context.Context, p Plan) error {
	there, err := n.exists(ctx, p)
	if err != nil {
		return err
	}
	if there {
		if _, err := call(ctx, "", ByNFT, "delete", "table", "inet", p.Table); err != nil {
			return err
		}
	}
	return removeRoutes(ctx)
}

func (nft) exists(ctx context.Context, p Plan) (bool, error) {
	tables, err := call(ctx, "", ByNFT, "list", "tables")
	return strings.Contains(tables, "table inet "+p.Table+"\n"), err
}

// nftListing is the part of `nft --json list table` that we read.
type nftListing struct {
	Objects []struct {
		Set *struct {
			Name     string `json:"name"`
			Elements []struct {
				Element struct {
					Expires int64 `json:"expires"` // in seconds
				} `json:"elem"`
			} `json:"elem"`
		} `json:"set"`
		Rule *struct {
			Comment     string `json:"comment"`
			Expressions []struct {
				Counter *struct {
					Packets uint64 `json:"packets"`
				} `json:"counter"`
			} `json:"expr"`
		} `json:"rule"`
	} `json:"nftables"`
}

func (n nft) State(ctx context.Context, p Plan) (State, error) {
	there, err := n.exists(ctx, p)
	if err != nil || !there {
		return State{}, err
	}
	text, err := call(ctx, "", ByNFT, "--json", "list", "table", "inet", p.Table)
	if err != nil {
		return State{}, err
	}
	var listing nftListing
	if err := json.Unmarshal([]byte(text), &listing); err != nil {
		return State{}, fmt.Errorf("read what nft says of table inet %s: %w", p.Table, err)
	}
	return listing.state(), nil
}

func (l nftListing) state() State {
	s := State{Present: true, By: ByNFT}
	for _, o := range l.Objects {
		if o.Set != nil && o.Set.Name == confirmedSet {
			for _, e := range o.Set.Elements {
				s.Confirmed = time.Duration(e.Element.Expires) * time.Second
			}
		}
		if o.Rule == nil {
			continue
		}
		for _, e := range o.Rule.Expressions {
			if e.Counter != nil {
				s.Counts = append(s.Counts, RuleCount{o.Rule.Comment, e.Counter.Packets})
			}
		}
	}
	return s
}
