//! Runs the common SDK scenario with the crates that `openapi-generator` generates.

use std::time::Duration;
use std::{env, error, fs};

use serde::Deserialize;
use svc_cloud_client as cloud;
use svc_cloud_client::apis::authentication_api::{sign_in, sign_out};
use svc_cloud_client::apis::license_api::{AuthorizeLaunchError, authorize_launch};
use svc_cloud_client::apis::organizations_api::activate_organization;
use svc_cloud_client::apis::profiles_api::{
    DeleteProfileError, create_profile, delete_profile, list_profiles,
};
use svc_cloud_client::apis::worker_integration_api::end_profile_session;
use svc_worker_client as worker;
use svc_worker_client::apis::sessions_api::{
    LaunchProfileError, get_browser_session, kill_browser_session, launch_profile,
};
use uuid::Uuid;

type Outcome<T> = Result<T, Box<dyn error::Error>>;

/// The content of the file at `SEED`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seed {
    organization_id: Uuid,
    organization_key: String,
    worker_key: String,
    browser_version: i32,
    owner: Owner,
    full: Full,
}

#[derive(Deserialize)]
struct Owner {
    email: String,
    password: String,
}

/// An organization whose slots are all taken.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Full {
    organization_key: String,
    profile_id: Uuid,
}

fn main() -> Outcome<()> {
    let seed: Seed = serde_json::from_str(&fs::read_to_string(env::var("SEED")?)?)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(scenario(&seed))
}

async fn scenario(seed: &Seed) -> Outcome<()> {
    let dashboard = sign_in_and_activate(seed).await?;
    let mut request =
        cloud::models::CreateProfileRequest::new(seed.browser_version, "Größe ✓".into());
    request.locale = Some(Some("de-DE".into()));
    request.notes = Some("by the rust client".into());
    let profile = create_profile(&dashboard, request, None).await?.data;
    expect(
        profile.name == "Größe ✓"
            && profile.locale.as_deref() == Some("de-DE")
            && profile.proxy.is_none(),
        &format!("the created profile is {profile:?}"),
    )?;
    ok(&format!(
        "create profile {} in version {}",
        profile.id, profile.version
    ));

    let reservation = authorize(seed, profile.id).await?;
    use_browser(seed, profile.id).await?;
    page_through(&dashboard).await?;

    let key = with_key(&seed.organization_key)?;
    let report = end_profile_session(
        &key,
        &profile.id.to_string(),
        &reservation.to_string(),
        None,
    )
    .await?;
    expect(
        report.data.session_id == reservation,
        &format!("the ended session is {report:?}"),
    )?;
    ok("end the reservation");
    delete_after_end(&dashboard, profile.id).await?;
    sign_out(&dashboard).await?;
    ok("sign out");
    Ok(())
}

/// Signs in and activates the organization.
async fn sign_in_and_activate(seed: &Seed) -> Outcome<cloud::apis::configuration::Configuration> {
    let mut dashboard = cloud_configuration()?;
    let request =
        cloud::models::SignInRequest::new(seed.owner.email.clone(), seed.owner.password.clone());
    let signed_in = sign_in(&dashboard, request).await?.data;
    ok(&format!(
        "sign in as {} until {}",
        signed_in.user.email, signed_in.expires_at
    ));
    dashboard.bearer_access_token = Some(signed_in.token);

    let organization = activate_organization(&dashboard, &seed.organization_id.to_string(), None)
        .await?
        .data;
    expect(organization.active, "the organization is not active")?;
    ok(&format!(
        "activate organization {} as {}",
        organization.slug, organization.role
    ));
    Ok(dashboard)
}

/// Reserves a slot and returns its session, and expects a refusal for the full organization.
async fn authorize(seed: &Seed, profile: Uuid) -> Outcome<Uuid> {
    let session = Uuid::new_v4();
    let mut request =
        cloud::models::AuthorizeRequest::new(Uuid::new_v4(), "sdk-rust".into(), session);
    request.profile_id = Some(profile);
    let authorization = authorize_launch(&with_key(&seed.organization_key)?, request.clone(), None)
        .await?
        .data;
    expect(
        authorization.allowed && authorization.limit.is_none() && authorization.slot_id.is_some(),
        &format!("the authorization is {authorization:?}"),
    )?;
    ok(&format!(
        "authorize: allowed, {} in use, no limit",
        authorization.current
    ));

    request.profile_id = Some(seed.full.profile_id);
    request.session_id = Uuid::new_v4();
    let answer = authorize_launch(&with_key(&seed.full.organization_key)?, request, None).await;
    let Err(cloud::apis::Error::ResponseError(cloud::apis::ResponseContent {
        entity: Some(AuthorizeLaunchError::Status402(refusal)),
        ..
    })) = answer
    else {
        return Err(format!("authorize at the limit returned {answer:?}").into());
    };
    let authorization = refusal.data;
    expect(
        !authorization.allowed
            && authorization.reason == Some(cloud::models::RefusalReason::ConcurrencyLimit),
        &format!("the refusal is {authorization:?}"),
    )?;
    ok(&format!(
        "authorize at the limit: 402, allowed {}, concurrency_limit, {} of {:?}",
        authorization.allowed, authorization.current, authorization.limit
    ));
    Ok(session)
}

/// Launches a browser, reads the session, sends an invalid launch, and ends the browser.
async fn use_browser(seed: &Seed, profile: Uuid) -> Outcome<()> {
    let worker = worker_configuration(seed)?;
    let mut request = worker::models::LaunchProfileRequest::new();
    request.profile_id = Some(profile);
    request.browser = Some(Box::new(worker::models::BrowserSettings {
        headless: Some(true),
        ..Default::default()
    }));
    let launched = launch_profile(&worker, request.clone()).await?.data;
    ok(&format!(
        "launch session {}: {}",
        launched.id, launched.status
    ));

    let read = get_browser_session(&worker, &launched.id.to_string())
        .await?
        .data;
    expect(
        read.status == worker::models::SessionStatus::Running
            && read.web_socket_debugger_url.is_some()
            && read.ended_at.is_none(),
        &format!("the session is {read:?}"),
    )?;
    ok(&format!(
        "read the session: Chromium {}, port {:?}",
        read.browser_version, read.debug_port
    ));

    request.spec = Some(Box::default());
    let answer = launch_profile(&worker, request).await;
    let Err(worker::apis::Error::ResponseError(worker::apis::ResponseContent {
        entity: Some(LaunchProfileError::Status400(refusal)),
        ..
    })) = answer
    else {
        return Err(format!("a launch of a profile and a spec returned {answer:?}").into());
    };
    let details = refusal.error.details.unwrap_or_default();
    expect(
        refusal.error.code == worker::models::ErrorCode::ValidationError
            && details.iter().any(|d| {
                d.field == "profileId" && d.code == worker::models::ErrorDetailCode::InvalidUnion
            }),
        &format!("the details are {details:?}"),
    )?;
    ok(&format!(
        "{}: {} {}",
        refusal.error.code, details[0].field, details[0].code
    ));

    let killed = kill_browser_session(&worker, &launched.id.to_string())
        .await?
        .data;
    expect(
        killed.status == worker::models::SessionStatus::Killed,
        &format!("the killed session is {killed:?}"),
    )?;
    ok(&format!(
        "kill the session: {}, {:?}",
        killed.status, killed.end_reason
    ));
    Ok(())
}

async fn page_through(dashboard: &cloud::apis::configuration::Configuration) -> Outcome<()> {
    let mut seen = 0;
    for page in 1.. {
        let list = list_profiles(
            dashboard,
            Some(page),
            Some(1),
            None,
            None,
            None,
            None,
            None,
            None,
        )
        .await?
        .data;
        seen += list.items.len();
        if !list.pagination.has_next {
            expect(
                list.pagination.total == i64::try_from(seen)?,
                &format!("{seen} of {}", list.pagination.total),
            )?;
            break;
        }
    }
    ok(&format!("page through {seen} profiles, one a page"));
    Ok(())
}

/// Deletes the profile after the worker has reported the end of the session.
async fn delete_after_end(
    dashboard: &cloud::apis::configuration::Configuration,
    profile: Uuid,
) -> Outcome<()> {
    for _ in 0..100 {
        match delete_profile(dashboard, &profile.to_string(), None).await {
            Err(cloud::apis::Error::ResponseError(cloud::apis::ResponseContent {
                status,
                entity: Some(DeleteProfileError::Status400(_)),
                ..
            })) if status == 409 => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => {
                other?;
                ok("delete the profile");
                return Ok(());
            }
        }
    }
    Err("the profile still has running sessions after ten seconds".into())
}

fn cloud_configuration() -> Outcome<cloud::apis::configuration::Configuration> {
    Ok(cloud::apis::configuration::Configuration {
        base_path: env::var("CLOUD_URL")?,
        client: reqwest::Client::builder()
            .timeout(Duration::from_mins(1))
            .build()?,
        ..Default::default()
    })
}

fn with_key(key: &str) -> Outcome<cloud::apis::configuration::Configuration> {
    let mut configuration = cloud_configuration()?;
    configuration.api_key = Some(cloud::apis::configuration::ApiKey {
        prefix: None,
        key: key.into(),
    });
    Ok(configuration)
}

fn worker_configuration(seed: &Seed) -> Outcome<worker::apis::configuration::Configuration> {
    Ok(worker::apis::configuration::Configuration {
        base_path: env::var("WORKER_URL")?,
        client: reqwest::Client::builder()
            .timeout(Duration::from_mins(1))
            .build()?,
        api_key: Some(worker::apis::configuration::ApiKey {
            prefix: None,
            key: seed.worker_key.clone(),
        }),
        ..Default::default()
    })
}

fn ok(step: &str) {
    println!("ok  {step}");
}

fn expect(condition: bool, message: &str) -> Outcome<()> {
    if condition {
        Ok(())
    } else {
        Err(message.into())
    }
}
