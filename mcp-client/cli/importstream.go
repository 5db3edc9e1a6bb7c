package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

const (
	// A portion of an import ends with the document that brings it to one of these.
	portionDocuments = 500
	portionBytes     = 1 << 20

	// pingEvery finds out that the server is gone while it is busy with a portion.
	pingEvery = 15 * time.Second
)

// stream opens the admin API for a call that takes as long as it takes.
func (s *server) stream(ctx context.Context, call func(context.Context, adminv1.AdminServiceClient) error, more ...grpc.DialOption) error {
	conn, err := s.connect(largestAnswer, append(more, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: s.timeout}))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.await(ctx, conn); err != nil {
		return err
	}
	return call(ctx, adminv1.NewAdminServiceClient(conn))
}

// await waits until the server has taken the connection, or has refused it: then the call has the reason.
func (s *server) await(ctx context.Context, conn *grpc.ClientConn) error {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready && state != connectivity.TransientFailure; state = conn.GetState() {
		if !conn.WaitForStateChange(within, state) {
			return cmp.Or(ctx.Err(), s.silent())
		}
	}
	return nil
}

const largestAnswer = 64 << 20

// importStream sends what read reads, and returns what came of it. Nothing is changed if read fails.
func (s *server) importStream(ctx context.Context, start *adminv1.ImportStart, shown *progress, read func(send func(*kinds.Document) error) error) (*imported, error) {
	done := &imported{}
	err := s.stream(ctx, func(ctx context.Context, admin adminv1.AdminServiceClient) error {
		stream, err := admin.Import(ctx)
		if err != nil {
			return s.explain(err)
		}
		answers := make(chan error, 1)
		go func() { answers <- done.receive(stream, shown) }()
		sending := &sending{stream: stream}
		err = sending.message(&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Start{Start: start}})
		if err == nil {
			err = read(sending.document)
		}
		if err == nil {
			err = sending.end()
		}
		if err != nil && !errors.Is(err, errStreamEnded) {
			return err // and the context takes back what was sent
		}
		shown.committing()
		return s.explainImport(<-answers)
	})
	return done, err
}

func (s *server) explainImport(err error) error {
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("%w. Whether anything was imported is not known; running this again is safe", s.explain(err))
	}
	return s.explain(err)
}

// errStreamEnded says that the server has ended the stream: its answers say why.
var errStreamEnded = errors.New("the server has ended the stream")

// sending gathers documents into portions.
type sending struct {
	stream  grpc.BidiStreamingClient[adminv1.ImportRequest, adminv1.ImportResponse]
	portion []*adminv1.Document
	bytes   int
}

func (s *sending) document(d *kinds.Document) error {
	sent, err := sentDocument(d)
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

func (s *sending) flush() error {
	if len(s.portion) == 0 {
		return nil
	}
	portion := &adminv1.ImportPortion{Documents: s.portion}
	s.portion, s.bytes = nil, 0
	return s.message(&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Portion{Portion: portion}})
}

func (s *sending) message(m *adminv1.ImportRequest) error {
	if err := s.stream.Send(m); errors.Is(err, io.EOF) {
		return errStreamEnded
	} else if err != nil {
		return err
	}
	return nil
}

func (s *sending) end() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.stream.CloseSend()
}

// imported is what came of an import: of each kind, how many resources it was done to.
type imported struct {
	warnings  warned
	revision  int64
	confirmBy *timestamppb.Timestamp
	of        map[kindName]map[string]int
	outcomes  []outcome
}

type kindName struct{ group, kind string }

// receive reads the answers until the last.
func (i *imported) receive(stream grpc.BidiStreamingClient[adminv1.ImportRequest, adminv1.ImportResponse], shown *progress) error {
	i.of = map[kindName]map[string]int{}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, o := range outcomesOf(answer.GetOutcomes()) {
			i.add(o)
		}
		shown.stored(len(answer.GetOutcomes()))
		if end := answer.GetEnd(); end != nil {
			i.revision, i.warnings, i.confirmBy = end.GetRevision(), warningsOf(end), end.GetConfirmBy()
			return nil
		}
	}
}

// add counts. What was deleted is kept by name: nobody has it in a file.
func (i *imported) add(o outcome) {
	k := kindName{o.Group, o.Kind}
	if i.of[k] == nil {
		i.of[k] = map[string]int{}
	}
	i.of[k][o.Action]++
	if o.Action == actions[adminv1.Outcome_ACTION_DELETED] {
		i.outcomes = append(i.outcomes, o)
	}
}
