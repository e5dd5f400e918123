//! What is checked of a request before it is decided on: its head and its destination, the client
//! that sends it, and whether it has been through this proxy before.

use http::{Response, Version, request};

use super::connection::Limits;
use super::connection::state::body::Body;
use super::connection::state::connection_context::ConnectionContext;
use super::connection::state::target_form::TargetForm;
use super::forward::Forwarding;
use super::framing::head;
use super::instance::Proxy;
use super::outcome::refusal::Refusal;
use super::outcome::rejection::Rejection;
use super::request::destination::{Destination, destination};
use super::request::expect::check_expectation;
use super::request::header_set::HeaderSet;
use super::request::max_forwards::{self, LastForward};
use super::request::target::Scope;
use super::response::respond;
use crate::clients::{Client, RejectReason};
use crate::types::loop_token::LoopTokens;

impl Proxy {
    /// Where a request leads. Its head is checked first.
    pub(super) fn destination(
        &self,
        head: &mut request::Parts,
        context: &ConnectionContext,
    ) -> Result<Destination, Refusal> {
        let (is_pathless, path_as_received) = if head.version == Version::HTTP_2 {
            let Limits { headers_max, strict_target, .. } = self.limits;
            (false, head::http2::check(head, headers_max, strict_target)?)
        } else {
            match context.state.target_form().take() {
                TargetForm::Plain => (false, None),
                TargetForm::Pathless => (true, None),
                TargetForm::Encoded(target) => (false, Some(target)),
            }
        };
        Ok(destination(head, &context.scope, is_pathless)?.with_path_as_received(path_as_received))
    }

    /// The response to a request that goes no further (RFC 9110 §7.6.2), if it is one.
    pub(super) fn respond_in_place(
        &self,
        head: &mut request::Parts,
        header_set: HeaderSet,
        client: &Client,
    ) -> Result<Option<Response<Body>>, Refusal> {
        if header_set.has(HeaderSet::EXPECT) {
            check_expectation(&head.headers, head.version)?;
        }
        self.check_loop(head, header_set, client)?;
        Ok(match max_forwards::count_down(head) {
            Some(LastForward::Options) => Some(respond::options()),
            Some(LastForward::Trace) => Some(respond::trace_ends_here()),
            None => None,
        })
    }

    /// Refuses what this process has sent itself and another proxy has sent back.
    pub(super) fn check_loop(
        &self,
        head: &request::Parts,
        header_set: HeaderSet,
        client: &Client,
    ) -> Result<(), Refusal> {
        let Forwarding { via, loop_token, .. } = &self.forwarding;
        let is_in_via = header_set.has(HeaderSet::VIA) && via.is_looping(&head.headers);
        if is_in_via || loop_token.as_ref().is_some_and(|own| client.loop_tokens.has(own)) {
            let detail = "the request has been through this proxy before";
            return Err(Rejection::looping(detail).into());
        }
        Ok(())
    }

    /// The client of a request. Credentials are required of requests to the proxy as a proxy: not
    /// for its own page, which a person may open in a browser, and not again inside a CONNECT. The
    /// proxies before this one are named by the request to the proxy, too.
    pub(super) async fn identify(
        &self,
        head: &request::Parts,
        context: &ConnectionContext,
    ) -> Result<Client, RejectReason> {
        if context.is_transparent {
            return self.admission.renew_address(&context.client);
        }
        if context.scope != Scope::AnyOrigin {
            return self.admission.renew(&context.client);
        }
        let address = context.client.address;
        if head.uri.authority().is_none() {
            return Ok(Client::at(address));
        }
        let client = self.admission.authenticate(address, &head.headers).await?;
        let client = match self.forwarding.loop_token {
            Some(_) => Client { loop_tokens: LoopTokens::of(&head.headers), ..client },
            None => client,
        };
        if let Some(user) = &client.user {
            self.admission.permit_user(user, &context.user_permit)?;
        }
        Ok(client)
    }
}
