"""The generated Connect clients and messages, for those who want them as they are."""

from ._gen.roamcard.v1.activity_connect import ActivityServiceClient as ActivityServiceClient
from ._gen.roamcard.v1.activity_connect import ActivityServiceClientSync as ActivityServiceClientSync
from ._gen.roamcard.v1.activity_pb import *  # noqa: F403
from ._gen.roamcard.v1.auth_connect import AuthServiceClient as AuthServiceClient
from ._gen.roamcard.v1.auth_connect import AuthServiceClientSync as AuthServiceClientSync
from ._gen.roamcard.v1.auth_pb import *  # noqa: F403
from ._gen.roamcard.v1.card_connect import CardServiceClient as CardServiceClient
from ._gen.roamcard.v1.card_connect import CardServiceClientSync as CardServiceClientSync
from ._gen.roamcard.v1.card_pb import *  # noqa: F403
from ._gen.roamcard.v1.esim_connect import EsimServiceClient as EsimServiceClient
from ._gen.roamcard.v1.esim_connect import EsimServiceClientSync as EsimServiceClientSync
from ._gen.roamcard.v1.esim_pb import *  # noqa: F403
from ._gen.roamcard.v1.operator_connect import OperatorServiceClient as OperatorServiceClient
from ._gen.roamcard.v1.operator_connect import OperatorServiceClientSync as OperatorServiceClientSync
from ._gen.roamcard.v1.operator_pb import *  # noqa: F403
from ._gen.roamcard.v1.order_connect import OrderServiceClient as OrderServiceClient
from ._gen.roamcard.v1.order_connect import OrderServiceClientSync as OrderServiceClientSync
from ._gen.roamcard.v1.order_pb import *  # noqa: F403
from ._gen.roamcard.v1.problem_pb import *  # noqa: F403
from ._gen.roamcard.v1.service_connect import RuntimeServiceClient as RuntimeServiceClient
from ._gen.roamcard.v1.service_connect import RuntimeServiceClientSync as RuntimeServiceClientSync
from ._gen.roamcard.v1.service_pb import *  # noqa: F403
