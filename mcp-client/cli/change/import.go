package change

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// A portion of an import is sent when it reaches one of these sizes: a message has a largest size,
// and the server tells portion by portion how far it is.
const (
	portionDocuments = 500
	portionBytes     = 1 << 20
)

// Start returns the first message of an import.
func (o *Options) Start() *adminv1.ImportStart {
	return &adminv1.ImportStart{Message: o.Message, DryRun: o.DryRun, Author: Author(), ConfirmWithin: o.Confirmation()}
}

// Import sends the documents that read produces, and returns what the import did. If read fails,
// nothing is changed.
func Import(ctx context.Context, s *connect.Server, start *adminv1.ImportStart, shown *files.Progress, read func(send func(*kinds.Document) error) error) (*Imported, error) {
	done := &Imported{}
	err := s.Stream(ctx, func(ctx context.Context, admin adminv1.AdminServiceClient) error {
		stream, err := admin.Import(ctx)
		if err != nil {
			return s.Explain(err)
		}
		answers := make(chan error, 1)
		go func() { answers <- done.receive(stream, shown) }()
		sending := &importSender{stream: stream}
		err = sending.message(&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Start{Start: start}})
		if err == nil {
			err = read(sending.document)
		}
		if err == nil {
			err = sending.end()
		}
		if err != nil && !errors.Is(err, errStreamEnded) {
			return err // the end of the context rolls the import back
		}
		shown.Committing()
		return explainImport(s, <-answers)
	})
	return done, err
}

func explainImport(s *connect.Server, err error) error {
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("%w. Whether anything was imported is not known; running this again is safe", s.Explain(err))
	}
	return s.Explain(err)
}

// errStreamEnded means that the server ended the stream. Its answer has the reason.
var errStreamEnded = errors.New("the server has ended the stream")

// importSender collects documents into portions and sends them.
type importSender struct {
	stream  grpc.BidiStreamingClient[adminv1.ImportRequest, adminv1.ImportResponse]
	portion []*adminv1.Document
	bytes   int
}

func (s *importSender) document(d *kinds.Document) error {
	sent, err := SentDocument(d, "")
	if err != nil {
		return err
	}
	s.portion = append(s.portion, sent)
	s.bytes += len(sent.GetContent())
	if len(s.portion) < portionDocuments && s.bytes < portionBytes {
		return nil
	}
	return s.flush()
}

func (s *importSender) flush() error {
	if len(s.portion) == 0 {
		return nil
	}
	portion := &adminv1.ImportPortion{Documents: s.portion}
	s.portion, s.bytes = nil, 0
	return s.message(&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Portion{Portion: portion}})
}

func (s *importSender) message(m *adminv1.ImportRequest) error {
	if err := s.stream.Send(m); errors.Is(err, io.EOF) {
		return errStreamEnded
	} else if err != nil {
		return err
	}
	return nil
}

func (s *importSender) end() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.stream.CloseSend()
}

// Imported is the result of an import: for each kind, how many resources had which outcome.
type Imported struct {
	warnings  problems.Warnings
	revision  int64
	confirmBy *timestamppb.Timestamp
	of        map[kindName]map[string]int
	outcomes  []outcome // of what was deleted
	changed   int
	told      []outcome // the first of what changed
	overwrote []outcome // the first of what was there and changed
	names     bool      // Print names these
}

// mostTold is how many changed resources are named.
const mostTold = 20

type kindName struct{ group, kind string }

// receive reads the answers up to the last.
func (i *Imported) receive(stream grpc.BidiStreamingClient[adminv1.ImportRequest, adminv1.ImportResponse], shown *files.Progress) error {
	i.of = map[kindName]map[string]int{}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, o := range outcomesOf(answer.GetOutcomes()) {
			i.add(o)
		}
		shown.Stored(len(answer.GetOutcomes()))
		if end := answer.GetEnd(); end != nil {
			i.revision, i.warnings, i.confirmBy = end.GetRevision(), problems.WarningsOf(end), end.GetConfirmBy()
			return nil
		}
	}
}

// add counts an outcome. Deleted resources are also listed by name, since no file has them.
func (i *Imported) add(o outcome) {
	k := kindName{o.Group, o.Kind}
	if i.of[k] == nil {
		i.of[k] = map[string]int{}
	}
	i.of[k][o.Action]++
	if o.Action != actions[adminv1.Outcome_ACTION_UNCHANGED] {
		if i.changed++; i.changed <= mostTold {
			i.told = append(i.told, o)
		}
	}
	switch o.Action {
	case actions[adminv1.Outcome_ACTION_DELETED]:
		i.outcomes = append(i.outcomes, o)
	case actions[adminv1.Outcome_ACTION_CONFIGURED]:
		if len(i.overwrote) < mostTold {
			i.overwrote = append(i.overwrote, o)
		}
	}
}
