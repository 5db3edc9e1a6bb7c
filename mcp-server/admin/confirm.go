package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Confirm keeps a change that would be reverted otherwise.
func (s *Service) Confirm(ctx context.Context, req *adminv1.ConfirmRequest) (*adminv1.ConfirmResponse, error) {
	var f fields
	who := f.origin(ctx, withoutMessage{req})
	if req.GetRevision() < 0 {
		f.addf("revision", "must not be negative")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := s.requireRevision(ctx, req.GetRevision()); err != nil {
		return nil, err
	}
	confirmed, err := s.resources.Confirm(ctx, req.GetRevision(), who.author)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &adminv1.ConfirmResponse{Revision: confirmed}, nil
}

// withoutMessage gives a ConfirmRequest the message that origin asks for: an empty one.
type withoutMessage struct{ req *adminv1.ConfirmRequest }

func (u withoutMessage) GetAuthor() string { return u.req.GetAuthor() }
func (withoutMessage) GetMessage() string  { return "" }

const maxConfirmations = 1000

var confirmationStates = []string{"waiting", "confirmed", "reverted", "conflict"}

// Confirmations lists the changes that are, or were, to be confirmed.
func (s *Service) Confirmations(ctx context.Context, req *adminv1.ConfirmationsRequest) (*adminv1.ConfirmationsResponse, error) {
	var f fields
	for i, state := range req.GetStates() {
		if !slices.Contains(confirmationStates, state) {
			f.addf(fmt.Sprintf("states[%d]", i), "%q is none of %s", state, strings.Join(confirmationStates, ", "))
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	found, err := s.resources.Confirmations(ctx, req.GetStates(), maxConfirmations)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	answer := &adminv1.ConfirmationsResponse{}
	for i := range found {
		answer.Confirmations = append(answer.Confirmations, confirmationOf(&found[i]))
	}
	return answer, nil
}

func confirmationOf(c *resources.Confirmation) *adminv1.Confirmation {
	confirmation := &adminv1.Confirmation{
		Revision: c.Revision, Author: c.Author, Message: c.Message, State: c.State, Deadline: stamp.Of(c.Deadline), Within: durationpb.New(c.Within),
		EndedAt: stamp.Of(c.EndedAt), EndedBy: c.EndedBy, RevertedBy: c.RevertedBy,
	}
	for _, u := range c.Conflicts {
		confirmation.Conflicts = append(confirmation.Conflicts, &adminv1.Unreverted{
			Resource:  &adminv1.ResourceRef{Group: groupOf(u.Kind), Kind: u.Kind, Namespace: u.Namespace, Name: u.Name},
			ChangedBy: u.ChangedBy, Reason: u.Reason,
		})
	}
	return confirmation
}

// groupOf returns the group of the kind with this name; "" if no kind or several have it.
func groupOf(kind string) string {
	group := ""
	for _, k := range kinds.All() {
		switch {
		case k.Name != kind:
		case group != "":
			return ""
		default:
			group = k.Group
		}
	}
	return group
}
