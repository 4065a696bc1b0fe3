package svc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	worker, err := svc.New(svc.Options{}) // SVC_WORKER and SVC_API_KEY
	if err != nil {
		log.Fatal(err)
	}
	headless, locale := false, sharedapi.Locale("de-DE")
	session, err := worker.Launch(ctx, svc.LaunchOptions{
		Spec:    &sharedapi.LaunchSpec{Locale: &locale},
		Browser: workerapi.BrowserSettings{Headless: &headless},
		Wait:    2 * time.Minute,
	})
	var refused *svc.Error
	if errors.As(err, &refused) {
		log.Fatalf("%s: %v", refused.Code, refused)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		if _, err := session.End(end); err != nil {
			log.Print(err)
		}
	}()

	// chromedp: chromedp.NewRemoteAllocator(ctx, session.WebSocketURL, chromedp.NoModifyURL)
	// rod:      rod.New().Context(ctx).ControlURL(session.WebSocketURL).MustConnect()
	fmt.Println(session.WebSocketURL)

	handover, err := session.WaitForHuman(ctx, "Solve the captcha.", 5*time.Minute, func(viewURL string) { fmt.Println("Open", viewURL) })
	if err != nil || handover.Status != workerapi.HandoverStatusDone {
		log.Print("nobody has solved it: ", err)
	}
	for entry, err := range session.Logs(ctx, false) {
		if err != nil {
			log.Print(err)
			break
		}
		fmt.Println(entry.Level, entry.Text)
	}
}
