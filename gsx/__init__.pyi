from gsx import errors as errors
from gsx.api.comparison import Comparison as Comparison
from gsx.api.comparison import compare as compare
from gsx.api.corpora import augment as augment
from gsx.api.corpora import generate as generate
from gsx.api.corpora import open as open
from gsx.api.corpora import prepare as prepare
from gsx.api.corpora import run as run
from gsx.api.listing import datasets as datasets
from gsx.api.listing import recipes as recipes
from gsx.api.models import Model as Model
from gsx.api.models import Scores as Scores
from gsx.api.models import evaluate as evaluate
from gsx.api.models import train as train
from gsx.api.predictions import Predictions as Predictions
from gsx.api.predictions import predict as predict
from gsx.api.publishing import export as export
from gsx.api.publishing import report as report
from gsx.api.recommendation import Recommendation as Recommendation
from gsx.api.recommendation import recommend as recommend
from gsx.api.statistics import Statistics as Statistics
from gsx.api.statistics import describe as describe
from gsx.api.store import Store as Store
from gsx.api.verification import Verification as Verification
from gsx.api.verification import verify as verify
from gsx.errors import GsxError as GsxError
from gsx.storage.corpora.corpus import Corpus as Corpus

__version__: str
__all__: list[str]
